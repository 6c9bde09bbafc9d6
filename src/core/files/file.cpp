#include "core/files/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// Linux transfers at most 2 GiB in one read or write.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// What helps against an error of writing a file.
std::string remedy(const std::filesystem::path& path, int error) {
  if (error == ENOSPC || error == EDQUOT) return "make room there, or choose a file on another disk";
  std::error_code ignored;
  const std::filesystem::path folder = folder_of(path);
  if (error == ENOENT && path.has_filename() && !std::filesystem::exists(folder, ignored))
    return fmt::format("make the folder '{}' first", folder.string());
  return "choose a file in a folder that you can write to";
}

[[noreturn]] void fail_writing(const std::filesystem::path& path, int error) {
  throw Error(fmt::format("cannot write '{}': {}; {}", path.string(), std::generic_category().message(error),
                          remedy(path, error)));
}

// A rename is durable only after its folder is synced. Some file systems cannot sync folders, so errors are ignored.
void sync_folder(const std::filesystem::path& folder) noexcept {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.is_open()) ::fsync(descriptor.number());
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe without a writer must fail below rather than hang here.
  descriptor_ = Descriptor(uninterrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!descriptor_.is_open()) throw_system_error("read", path_, errno);
  struct stat status {};
  if (::fstat(descriptor_.number(), &status) != 0) throw_system_error("read", path_, errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(fmt::format("cannot read '{}': it is {}, not a regular file", path_.string(),
                            S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe"));
  }
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > size_bytes_ || into.size() > size_bytes_ - offset) {
    throw Error(fmt::format("cannot read '{}': {} bytes at offset {} are needed and the file has {}", path_.string(),
                            into.size(), offset, size_bytes_));
  }
  while (!into.empty()) {
    const std::size_t wanted = std::min(into.size(), kMaxTransferBytes);
    const ssize_t got =
        uninterrupted([&] { return ::pread(descriptor_.number(), into.data(), wanted, static_cast<off_t>(offset)); });
    if (got < 0) throw_system_error("read", path_, errno);
    if (got == 0)
      throw Error(
          fmt::format("cannot read '{}': another program truncated it while it was being read", path_.string()));
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  const Descriptor descriptor(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!descriptor.is_open()) throw_system_error("read", path, errno);
  std::string contents;
  std::string buffer(std::size_t{1} << 16, '\0');
  while (contents.size() <= limit_bytes) {
    const ssize_t got = uninterrupted([&] { return ::read(descriptor.number(), buffer.data(), buffer.size()); });
    if (got < 0) throw_system_error("read", path, errno);
    if (got == 0) return contents;
    contents.append(buffer.data(), static_cast<std::size_t>(got));
  }
  throw Error(fmt::format("cannot read '{}': it is larger than the limit of {} bytes", path.string(), limit_bytes));
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  if (!path_.has_filename()) fail_writing(path_, path_.empty() ? ENOENT : EISDIR);
  std::error_code ignored;
  target_ = std::filesystem::weakly_canonical(path_, ignored);
  if (target_.empty()) target_ = path_;
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = Descriptor(uninterrupted([&] { return ::open(path_.c_str(), O_WRONLY | O_CLOEXEC); }));
    if (!descriptor_.is_open()) fail_writing(path_, errno);
    return;
  }
  // rename() would replace a read-only file, because it needs only permission for the folder.
  if (exists && ::access(path_.c_str(), W_OK) != 0) fail_writing(path_, errno);
  open_temporary();
  if (exists) ::fchmod(descriptor_.number(), status.st_mode & 0777);
}

void OutputFile::open_temporary() {
  constexpr mode_t kReadWriteForAll = 0666;  // less the process's umask
  static std::atomic<unsigned> counter{0};
  const std::string stem = target_.filename().string().substr(0, 64);
  do {
    temporary_ = folder_of(target_) / fmt::format(".{}.{}.{}.tmp", stem, static_cast<long>(::getpid()), ++counter);
    descriptor_ = Descriptor(uninterrupted(
        [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadWriteForAll); }));
  } while (!descriptor_.is_open() && errno == EEXIST);
  if (!descriptor_.is_open()) fail_writing(path_, errno);
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = std::min(bytes.size(), kMaxTransferBytes);
    const ssize_t put = uninterrupted([&] { return ::write(descriptor_.number(), bytes.data(), wanted); });
    if (put < 0) fail_writing(path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void OutputFile::commit() {
  const bool direct = temporary_.empty();
  if (!direct && uninterrupted([&] { return ::fsync(descriptor_.number()); }) != 0) fail_writing(path_, errno);
  // Linux frees the descriptor even when close() is interrupted, so it must not be closed again.
  if (::close(descriptor_.release()) != 0 && errno != EINTR) fail_writing(path_, errno);
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
