#include "core/files/disk_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/files/private_folder.h"
#include "core/warning.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestEntryBytes = std::uint64_t{64} << 20;

// FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 14695981039346656037ULL;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

// Detects a truncated file, and a file of another key with the same hash.
std::string header(std::string_view key, std::string_view contents) {
  return fmt::format("ridgepoint cache 1 {} {} {:016x}\n{}\n", key.size(), contents.size(), hash(contents), key);
}

std::string name_of(std::string_view key) { return fmt::format("{:016x}", hash(key)); }

// One warning for each base folder.
void warn(const fs::path& base, std::string_view what, std::string_view reason) {
  warn_once("the cache in " + base.string(),
            fmt::format("{}: {}; set XDG_CACHE_HOME to a folder that only you can write to", what, reason));
}

}  // namespace

DiskCache DiskCache::in_user_folder(std::string_view name) {
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base != nullptr && *base == '/') return {base, name};
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return {fs::path(home) / ".cache", name};
  return {fs::path(), name};
}

DiskCache::DiskCache(fs::path base, std::string_view name)
    : base_(std::move(base)), levels_(fs::path("ridgepoint") / name) {}

fs::path DiskCache::path_of(std::string_view key) const { return base_ / levels_ / name_of(key); }

std::optional<std::string> DiskCache::load(std::string_view key) const {
  if (base_.empty()) return std::nullopt;
  std::optional<std::string> text;
  try {
    const std::optional<PrivateFolder> folder = PrivateFolder::open(base_, levels_, false);
    if (folder) text = folder->read(name_of(key), kLargestEntryBytes);
  } catch (const Error& error) {
    warn(base_, "cached results are not used", error.what());
  }
  if (!text) return std::nullopt;
  // The file has the header line, the key, a line break and the contents.
  const std::size_t begin = std::min(text->find('\n'), text->size()) + key.size() + 2;
  const std::string_view contents = begin <= text->size() ? std::string_view(*text).substr(begin) : std::string_view();
  if (begin > text->size() || std::string_view(*text).substr(0, begin) != header(key, contents)) {
    warn_once("damage in " + base_.string(),
              fmt::format("a damaged entry of the cache in {} is ignored", (base_ / levels_).string()));
    return std::nullopt;
  }
  return std::string(contents);
}

void DiskCache::store(std::string_view key, std::string_view contents) const { write(key, contents, true); }

std::string DiskCache::store_first(std::string_view key, std::string_view contents,
                                   const std::function<bool(const std::string&)>& accepts) const {
  if (write(key, contents, false)) return std::string(contents);
  if (std::optional<std::string> first = load(key); first && accepts(*first)) return *std::move(first);
  store(key, contents);
  return std::string(contents);
}

bool DiskCache::write(std::string_view key, std::string_view contents, bool replaces) const {
  if (base_.empty()) return true;
  try {
    const std::optional<PrivateFolder> folder = PrivateFolder::open(base_, levels_, true);
    const std::string entry = header(key, contents).append(contents);
    if (!replaces) return folder->write_new(name_of(key), entry);
    folder->write(name_of(key), entry);
  } catch (const std::exception& error) {
    warn(base_, "results are not cached, so the next run does this work again", error.what());
  }
  return true;
}

}  // namespace ridgepoint
