#include "core/files/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/files/leftovers.h"
#include "core/text/throw_error.h"
#include "core/warning.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kForTheUserAlone = 0700;
constexpr mode_t kForOthersToWrite = 0022;
constexpr mode_t kForOthers = 0077;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

[[noreturn]] void refuse(const fs::path& path, std::string_view what) { throw_error("'{}' {}", path.string(), what); }

struct stat status_of(int descriptor, const fs::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_system_error("read", path, errno);
  return status;
}

void require_own(const fs::path& path, const struct stat& status) {
  if (status.st_uid != ::geteuid())
    refuse(path, fmt::format("belongs to user {} and this program runs as user {}", status.st_uid, ::geteuid()));
  if ((status.st_mode & kForOthersToWrite) != 0) {
    refuse(path, fmt::format("can be written to by other users (its mode is {:04o}); delete it, because its files "
                             "cannot be trusted",
                             status.st_mode & 07777));
  }
}

// A folder inside an open folder; not open where it is missing.
Descriptor open_level(int above, const std::string& name, const fs::path& path, bool create) {
  if (create && ::mkdirat(above, name.c_str(), kForTheUserAlone) != 0 && errno != EEXIST)
    throw_system_error("create", path, errno);
  Descriptor folder(uninterrupted([&] { return ::openat(above, name.c_str(), kFolderFlags | O_NOFOLLOW); }));
  if (!folder.is_open()) {
    if (errno == ENOENT && !create) return folder;
    struct stat status {};
    const bool is_link = ::fstatat(above, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
    if (is_link) refuse(path, "is a symbolic link, which is not followed");
    throw_system_error("open", path, errno);
  }
  const struct stat status = status_of(folder.number(), path);
  require_own(path, status);
  // Also withdraws read permission from other users, where the file system supports it.
  if ((status.st_mode & kForOthers) != 0) ::fchmod(folder.number(), status.st_mode & kForTheUserAlone);
  return folder;
}

// Like `mkdir -p`, with mode 0700.
void make_folders(const fs::path& path) {
  if (::mkdir(path.c_str(), kForTheUserAlone) == 0 || errno == EEXIST) return;
  if (errno != ENOENT || !path.has_parent_path() || path.parent_path() == path)
    throw_system_error("create", path, errno);
  make_folders(path.parent_path());
  if (::mkdir(path.c_str(), kForTheUserAlone) != 0 && errno != EEXIST) throw_system_error("create", path, errno);
}

void write_all(int descriptor, std::string_view contents, const fs::path& path) {
  while (!contents.empty()) {
    const ssize_t put = uninterrupted([&] { return ::write(descriptor, contents.data(), contents.size()); });
    if (put < 0) throw_system_error("write", path, errno);
    contents.remove_prefix(static_cast<std::size_t>(put));
  }
  if (uninterrupted([&] { return ::fsync(descriptor); }) != 0) throw_system_error("write", path, errno);
}

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

std::optional<PrivateFolder> PrivateFolder::open(const fs::path& base, const fs::path& levels, bool create) {
  if (create) make_folders(base);
  fs::path path = base;
  Descriptor folder(uninterrupted([&] { return ::open(base.c_str(), kFolderFlags); }));
  if (!folder.is_open()) {
    if (errno == ENOENT && !create) return std::nullopt;
    throw_system_error("open", base, errno);
  }
  for (const fs::path& level : levels) {
    path /= level;
    folder = open_level(folder.number(), level.string(), path, create);
    if (!folder.is_open()) return std::nullopt;
  }
  return PrivateFolder(std::move(path), std::move(folder));
}

std::optional<std::string> PrivateFolder::read(const std::string& name, std::uint64_t limit_bytes) const {
  const fs::path path = path_ / name;
  // O_NONBLOCK: open() must not wait for the writer of a pipe.
  const Descriptor file(uninterrupted(
      [&] { return ::openat(descriptor_.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  if (!file.is_open()) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP) refuse(path, "is a symbolic link, which is not followed");
    throw_system_error("read", path, errno);
  }
  const struct stat status = status_of(file.number(), path);
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file");
  require_own(path, status);
  if (static_cast<std::uint64_t>(status.st_size) > limit_bytes)
    refuse(path, fmt::format("is larger than the limit of {} bytes", limit_bytes));
  std::string contents(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t filled = 0;
  while (filled < contents.size()) {
    const ssize_t got =
        uninterrupted([&] { return ::read(file.number(), contents.data() + filled, contents.size() - filled); });
    if (got < 0) throw_system_error("read", path, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  contents.resize(filled);
  return contents;
}

void PrivateFolder::write(const std::string& name, std::string_view contents) const { write(name, contents, true); }

bool PrivateFolder::write_new(const std::string& name, std::string_view contents) const {
  return write(name, contents, false);
}

bool PrivateFolder::write(const std::string& name, std::string_view contents, bool replaces) const {
  static std::atomic<unsigned> counter{0};
  const fs::path path = path_ / name;
  std::string temporary;
  Descriptor file;
  remove_leftovers(path_, [](std::string_view entry) { return is_temporary_name(entry, ""); });
  do {
    temporary = temporary_name(name, ++counter);
    file = Descriptor(uninterrupted([&] {
      constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
      return ::openat(descriptor_.number(), temporary.c_str(), kFlags, 0600);
    }));
  } while (!file.is_open() && errno == EEXIST);
  if (!file.is_open()) throw_system_error("write", path, errno);
  mark_in_use(file.number());
  try {
    write_all(file.number(), contents, path);
    const int folder = descriptor_.number();
    if (!replaces) {
      const bool is_new = ::linkat(folder, temporary.c_str(), folder, name.c_str(), 0) == 0;
      if (is_new || errno == EEXIST) {
        ::unlinkat(folder, temporary.c_str(), 0);
        return is_new;
      }
    }
    if (::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) throw_system_error("write", path, errno);
    return true;
  } catch (...) {
    ::unlinkat(descriptor_.number(), temporary.c_str(), 0);
    throw;
  }
}

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
