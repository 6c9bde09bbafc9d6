#include "core/files/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/files/system_call.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// Linux transfers at most 2 GiB in one read or write.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;

[[noreturn]] void fail_writing(const std::filesystem::path& path, int error) {
  const std::string reason = std::generic_category().message(error);
  throw Error(
      fmt::format("cannot write '{}': {}; choose a file in a folder that you can write to", path.string(), reason));
}

void close_quietly(int& descriptor) noexcept {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// A rename is durable only after its folder is synced. Some file systems cannot sync folders, so errors are ignored.
void sync_folder(const std::filesystem::path& folder) noexcept {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) ::fsync(descriptor);
  close_quietly(descriptor);
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe without a writer must fail below rather than hang here.
  descriptor_ = uninterrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (descriptor_ < 0) throw_system_error("read", path_, errno);
  struct stat status {};
  const int error = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    close_quietly(descriptor_);
    if (error != 0) throw_system_error("read", path_, error);
    throw Error(fmt::format("cannot read '{}': it is {}, not a regular file", path_.string(),
                            S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe"));
  }
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { close_quietly(descriptor_); }

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > size_bytes_ || into.size() > size_bytes_ - offset) {
    throw Error(fmt::format("cannot read '{}': {} bytes at offset {} are needed and the file has {}", path_.string(),
                            into.size(), offset, size_bytes_));
  }
  while (!into.empty()) {
    const std::size_t wanted = std::min(into.size(), kMaxTransferBytes);
    const ssize_t got =
        uninterrupted([&] { return ::pread(descriptor_, into.data(), wanted, static_cast<off_t>(offset)); });
    if (got < 0) throw_system_error("read", path_, errno);
    if (got == 0)
      throw Error(
          fmt::format("cannot read '{}': another program truncated it while it was being read", path_.string()));
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  int descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (descriptor < 0) throw_system_error("read", path, errno);
  std::string contents;
  std::string buffer(std::size_t{1} << 16, '\0');
  ssize_t got = 0;
  int error = 0;
  do {
    got = uninterrupted([&] { return ::read(descriptor, buffer.data(), buffer.size()); });
    if (got < 0) error = errno;
    if (got > 0) contents.append(buffer.data(), static_cast<std::size_t>(got));
  } while (got > 0 && contents.size() <= limit_bytes);
  close_quietly(descriptor);
  if (error != 0) throw_system_error("read", path, error);
  if (contents.size() > limit_bytes) {
    throw Error(fmt::format("cannot read '{}': it is larger than the limit of {} bytes", path.string(), limit_bytes));
  }
  return contents;
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  if (!path_.has_filename()) fail_writing(path_, path_.empty() ? ENOENT : EISDIR);
  std::error_code ignored;
  target_ = std::filesystem::weakly_canonical(path_, ignored);
  if (target_.empty()) target_ = path_;
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = uninterrupted([&] { return ::open(path_.c_str(), O_WRONLY | O_CLOEXEC); });
    if (descriptor_ < 0) fail_writing(path_, errno);
    return;
  }
  // rename() would replace a read-only file, because it needs only permission for the folder.
  if (exists && ::access(path_.c_str(), W_OK) != 0) fail_writing(path_, errno);
  open_temporary();
  if (exists) ::fchmod(descriptor_, status.st_mode & 0777);
}

void OutputFile::open_temporary() {
  constexpr mode_t kReadWriteForAll = 0666;  // less the process's umask
  static std::atomic<unsigned> counter{0};
  const std::string stem = target_.filename().string().substr(0, 64);
  do {
    temporary_ = folder_of(target_) / fmt::format(".{}.{}.{}.tmp", stem, static_cast<long>(::getpid()), ++counter);
    descriptor_ = uninterrupted(
        [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadWriteForAll); });
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail_writing(path_, errno);
}

OutputFile::~OutputFile() {
  close_quietly(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = std::min(bytes.size(), kMaxTransferBytes);
    const ssize_t put = uninterrupted([&] { return ::write(descriptor_, bytes.data(), wanted); });
    if (put < 0) fail_writing(path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void OutputFile::commit() {
  const bool direct = temporary_.empty();
  if (!direct && uninterrupted([&] { return ::fsync(descriptor_); }) != 0) fail_writing(path_, errno);
  // Linux frees the descriptor even when close() is interrupted, so it must not be closed again.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail_writing(path_, errno);
  if (direct) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_writing(path_, errno);
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  OutputFile file(path);
  file.write(contents);
  file.commit();
}

void check_writable(const std::filesystem::path& path) { const OutputFile probe(path); }

}  // namespace ridgepoint
