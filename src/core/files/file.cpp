#include "core/files/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "core/files/leftovers.h"
#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

// Linux transfers at most 2 GiB in one read or write.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;

// A piece that is written at once stays in the processor's cache for its checksum.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
// What is smaller gains nothing from threads.
constexpr std::uint64_t kLeastDirectBytes = std::uint64_t{64} << 20;
// Files go to the disk in steps of this size while the next ones are prepared.
constexpr std::size_t kSentBytes = std::size_t{32} << 20;

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// What helps against an error of writing a file.
std::string remedy(const std::filesystem::path& path, int error) {
  if (error == ENOSPC || error == EDQUOT) return "make room there, or choose a file on another disk";
  if (error == EFBIG) return "raise the limit of a file's size (ulimit -f), or choose a file on another disk";
  std::error_code ignored;
  const std::filesystem::path folder = folder_of(path);
  if (error == ENOENT && path.has_filename() && !std::filesystem::exists(folder, ignored))
    return fmt::format("make the folder '{}' first", folder.string());
  return "choose a file in a folder that you can write to";
}

[[noreturn]] void fail_writing(const std::filesystem::path& path, int error) {
  throw_error("cannot write '{}': {}; {}", path.string(), std::generic_category().message(error), remedy(path, error));
}

// A rename is durable only after its folder is synced. Some file systems cannot sync folders, so errors are ignored.
void sync_folder(const std::filesystem::path& folder) noexcept {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.is_open()) ::fsync(descriptor.number());
}

// Where the links of `path` lead. The file need not exist.
std::filesystem::path target_of(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as the system follows
  std::filesystem::path target = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code is_no_link;
    const std::filesystem::path next = std::filesystem::read_symlink(target, is_no_link);
    if (is_no_link) return target;
    target = folder_of(target) / next;  // an absolute one stands alone
  }
  fail_writing(path, ELOOP);
}

// Returns whether there is something to read, or the end.
bool wait_for_data(int descriptor, int milliseconds) {
  pollfd waiting{descriptor, POLLIN, 0};
  return uninterrupted([&] { return ::poll(&waiting, 1, milliseconds); }) != 0;
}

// A pipe gets an end that does not wait for the other one; afterwards writing waits for room as usual.
Descriptor open_special(const std::filesystem::path& path) {
  constexpr std::chrono::milliseconds kPause{20};
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPipeMilliseconds);
  for (;;) {
    Descriptor file(uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK); }));
    if (file.is_open()) {
      ::fcntl(file.number(), F_SETFL, ::fcntl(file.number(), F_GETFL) & ~O_NONBLOCK);
      return file;
    }
    if (errno != ENXIO) fail_writing(path, errno);
    if (std::chrono::steady_clock::now() > until)
      throw_error("cannot write '{}': no program reads from this pipe; start its reader first", path.string());
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe without a writer must fail below rather than hang here.
  descriptor_ = Descriptor(uninterrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!descriptor_.is_open()) throw_system_error("read", path_, errno);
  struct stat status {};
  if (::fstat(descriptor_.number(), &status) != 0) throw_system_error("read", path_, errno);
  if (!S_ISREG(status.st_mode))
    throw_error("cannot read '{}': it is {}, not a regular file", path_.string(),
                S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe");
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > size_bytes_ || into.size() > size_bytes_ - offset)
    throw_error("cannot read '{}': {} bytes at offset {} are needed and the file has {}", path_.string(), into.size(),
                offset, size_bytes_);
  while (!into.empty()) {
    const std::size_t wanted = std::min(into.size(), kMaxTransferBytes);
    const ssize_t got =
        uninterrupted([&] { return ::pread(descriptor_.number(), into.data(), wanted, static_cast<off_t>(offset)); });
    if (got < 0) throw_system_error("read", path_, errno);
    if (got == 0) throw_error("cannot read '{}': another program truncated it while it was being read", path_.string());
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  const Descriptor descriptor(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!descriptor.is_open()) throw_system_error("read", path, errno);
  struct stat status {};
  // A pipe that no program has opened to write looks as if it had ended.
  bool may_lack_writer = ::fstat(descriptor.number(), &status) == 0 && S_ISFIFO(status.st_mode);
  std::string contents;
  std::string buffer(std::size_t{1} << 16, '\0');
  while (contents.size() <= limit_bytes) {
    const ssize_t got = uninterrupted([&] { return ::read(descriptor.number(), buffer.data(), buffer.size()); });
    if (got < 0 && errno == EAGAIN) {
      wait_for_data(descriptor.number(), -1);
    } else if (got < 0) {
      throw_system_error("read", path, errno);
    } else if (got == 0 && !may_lack_writer) {
      return contents;
    } else if (got == 0 && !wait_for_data(descriptor.number(), kPipeMilliseconds)) {
      throw_error("cannot read '{}': no program writes to this pipe", path.string());
    }
    may_lack_writer = false;
    if (got <= 0) continue;
    contents.append(buffer.data(), static_cast<std::size_t>(got));
  }
  throw_error("cannot read '{}': it is larger than the limit of {} bytes", path.string(), limit_bytes);
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  if (!path_.has_filename()) fail_writing(path_, path_.empty() ? ENOENT : EISDIR);
  target_ = target_of(path_);
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = open_special(path_);
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
  remove_leftovers(folder_of(target_), [&](std::string_view name) { return is_temporary_name(name, stem); });
  do {
    temporary_ = folder_of(target_) / temporary_name(stem, ++counter);
    descriptor_ = Descriptor(uninterrupted(
        [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadWriteForAll); }));
  } while (!descriptor_.is_open() && errno == EEXIST);
  if (!descriptor_.is_open()) fail_writing(path_, errno);
  mark_in_use(descriptor_.number());
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::expect(std::uint64_t bytes) {
  if (bytes >= kLeastDirectBytes && !temporary_.empty()) direct_ = std::make_unique<DirectWrites>(descriptor_.number());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = std::min(bytes.size(), kPieceBytes);
    if (direct_ != nullptr) {
      if (const int error = direct_->write(bytes.first(wanted)); error != 0) fail_writing(path_, error);
      if (checksum_ != nullptr) checksum_->add(bytes.first(wanted));
      bytes = bytes.subspan(wanted);
      continue;
    }
    const ssize_t put = uninterrupted([&] { return ::write(descriptor_.number(), bytes.data(), wanted); });
    if (put < 0) fail_writing(path_, errno);
    if (checksum_ != nullptr) checksum_->add(bytes.first(static_cast<std::size_t>(put)));
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    unsent_bytes_ += static_cast<std::uint64_t>(put);
    if (unsent_bytes_ >= kSentBytes) begin_sending();
  }
}

// The disk begins at once what fsync() would wait for in the end.
void OutputFile::begin_sending() {
#ifdef SYNC_FILE_RANGE_WRITE
  if (!temporary_.empty()) ::sync_file_range(descriptor_.number(), 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
  unsent_bytes_ = 0;
}

void OutputFile::commit() {
  const bool is_stream = temporary_.empty();
  if (const int error = direct_ != nullptr ? direct_->finish() : 0; error != 0) fail_writing(path_, error);
  if (!is_stream && uninterrupted([&] { return ::fsync(descriptor_.number()); }) != 0) fail_writing(path_, errno);
  // Linux frees the descriptor even when close() is interrupted, so it must not be closed again.
  if (::close(descriptor_.release()) != 0 && errno != EINTR) fail_writing(path_, errno);
  if (is_stream) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_writing(path_, errno);
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  OutputFile file(path);
  file.write(contents);
  file.commit();
}

void check_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_fifo(path, ignored)) {
    if (::access(path.c_str(), W_OK) != 0) fail_writing(path, errno);
    return;
  }
  const OutputFile probe(path);
}

}  // namespace ridgepoint
