#include "core/files/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kForTheUserAlone = 0700;
constexpr mode_t kForOthersToWrite = 0022;
constexpr mode_t kForOthers = 0077;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

[[noreturn]] void refuse(const fs::path& path, std::string_view what) {
  throw Error(fmt::format("'{}' {}", path.string(), what));
}

struct stat status_of(int descriptor, const fs::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_system_error("read", path, errno);
  return status;
}

void require_own(const fs::path& path, const struct stat& status) {
  if (status.st_uid != ::geteuid()) {
    refuse(path, fmt::format("belongs to user {} and this program runs as user {}", status.st_uid, ::geteuid()));
  }
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
  if (static_cast<std::uint64_t>(status.st_size) > limit_bytes) {
    refuse(path, fmt::format("is larger than the limit of {} bytes", limit_bytes));
  }
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
  do {
    temporary = fmt::format(".{}.{}.{}.tmp", name, static_cast<long>(::getpid()), ++counter);
    file = Descriptor(uninterrupted([&] {
      constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
      return ::openat(descriptor_.number(), temporary.c_str(), kFlags, 0600);
    }));
  } while (!file.is_open() && errno == EEXIST);
  if (!file.is_open()) throw_system_error("write", path, errno);
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

}  // namespace ridgepoint
