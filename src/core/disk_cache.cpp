#include "core/disk_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "core/file.h"
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

// Says what follows, so that a file cut short or of another key is known for what it is.
std::string header(std::string_view key, std::string_view contents) {
  return fmt::format("ridgepoint cache 1 {} {} {:016x}\n{}\n", key.size(), contents.size(), hash(contents), key);
}

}  // namespace

DiskCache DiskCache::in_user_folder(std::string_view name) {
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base != nullptr && *base == '/') return DiskCache(fs::path(base) / "ridgepoint" / name);
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return DiskCache(fs::path(home) / ".cache" / "ridgepoint" / name);
  return DiskCache(fs::path());
}

fs::path DiskCache::path_of(std::string_view key) const { return folder_ / fmt::format("{:016x}", hash(key)); }

std::optional<std::string> DiskCache::load(std::string_view key) const {
  std::error_code failed;
  if (folder_.empty() || !fs::is_regular_file(path_of(key), failed)) return std::nullopt;
  std::string text;
  try {
    text = read_file(path_of(key), kLargestEntryBytes);
  } catch (const Error& error) {
    warn_once(folder_.string(), fmt::format("the cache in {} is not read: {}", folder_.string(), error.what()));
    return std::nullopt;
  }
  // The key stands after the first line; the contents after the key.
  const std::size_t begin = std::min(text.find('\n'), text.size()) + key.size() + 2;
  const std::string_view contents = begin <= text.size() ? std::string_view(text).substr(begin) : std::string_view();
  if (begin > text.size() || std::string_view(text).substr(0, begin) != header(key, contents)) {
    warn_once(folder_.string(), fmt::format("a damaged entry of the cache in {} is ignored", folder_.string()));
    return std::nullopt;
  }
  return std::string(contents);
}

void DiskCache::store(std::string_view key, std::string_view contents) const {
  if (folder_.empty()) return;
  try {
    fs::create_directories(folder_);
    write_file(path_of(key), header(key, contents).append(contents));
  } catch (const std::exception& error) {
    warn_once(folder_.string(), fmt::format("the cache in {} is not written, so the next run does this work again: {}",
                                            folder_.string(), error.what()));
  }
}

}  // namespace ridgepoint
