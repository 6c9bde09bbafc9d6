#include "runtime/device/offload_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/files/direct_io.h"
#include "core/rounding.h"
#include "core/text/units.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

static_assert(kFileBlockBytes % kDirectAlignment == 0 && kStagingPieceBytes % kFileBlockBytes == 0);

// Above all of user space, as those of the null device, so that a stray access faults at once.
constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 51;

std::string text_of(int error) { return std::generic_category().message(error); }

}  // namespace

OffloadFile::Range OffloadFile::Range::piece(std::size_t index) const {
  const std::uint64_t first = begin + index * kStagingPieceBytes;
  return {first, std::min<std::uint64_t>(first + kStagingPieceBytes, end)};
}

OffloadFile::OffloadFile(std::filesystem::path folder, std::size_t bytes, std::string consequence)
    : folder_(std::move(folder)),
      consequence_(std::move(consequence)),
      reads_(*this, Direction::read),
      writes_(*this, Direction::write) {
  std::string name = (folder_ / "ridgepoint-offload.XXXXXX").string();
  descriptor_ = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!descriptor_.is_open()) {
    throw Error("cannot make a file in '" + folder_.string() + "': " + text_of(errno) +
                    "; name a folder that exists and that you may write to: --offload-folder PATH",
                ErrorKind::usage);
  }
  ::unlink(name.c_str());
  reserve(bytes);
  set_direct(descriptor_.number(), true);
}

OffloadFile::~OffloadFile() = default;

void OffloadFile::reserve(std::size_t bytes) {
  std::error_code unknown;
  const std::uintmax_t free = std::filesystem::space(folder_, unknown).available;
  int error = ENOSPC;
  if (unknown || bytes <= free) {
    do {
      error = ::posix_fallocate(descriptor_.number(), 0, static_cast<off_t>(bytes));
    } while (error == EINTR);
  }
  struct stat facts {};
  if (error == 0 && ::fstat(descriptor_.number(), &facts) != 0) error = errno;
  bytes_ = static_cast<std::size_t>(facts.st_size);
  if (error == 0) return;
  throw Error("--offload-folder needs " + format_bytes(bytes) + " in '" + folder_.string() + "'" +
                  (unknown ? "" : ", where " + format_bytes(free) + " are free") + ": " + text_of(error) +
                  "; free some, name a folder on another disk, or choose an optimizer with fewer states",
              ErrorKind::unsupported);
}

void OffloadFile::set_staging(std::shared_ptr<std::byte> memory) {
  staging_ = std::move(memory);
  reads_.start();
  writes_.start();
}

std::byte* OffloadFile::address_of(std::size_t offset) { return reinterpret_cast<std::byte*>(kFirstAddress + offset); }

std::uint64_t OffloadFile::offset_of(const void* address, std::size_t bytes) const {
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(address) - kFirstAddress;
  if (offset <= bytes_ && bytes <= bytes_ - offset) return offset;
  throw Error("a transfer leaves the file of --offload-folder", ErrorKind::usage);
}

OffloadFile::Range OffloadFile::range_around(const void* address, std::size_t bytes) const {
  const std::uint64_t offset = offset_of(address, bytes);
  return {offset / kFileBlockBytes * kFileBlockBytes, round_up(offset + bytes, kFileBlockBytes)};
}

void OffloadFile::read(const void* address, std::span<std::byte> into) {
  const std::uint64_t first = offset_of(address, into.size()), last = first + into.size();
  const Range range = range_around(address, into.size());
  for (std::size_t i = 0; i < range.pieces(); ++i) {
    turn(Direction::read, range, i);
    const Range piece = range.piece(i);
    const std::uint64_t begin = std::max(piece.begin, first), end = std::min(piece.end, last);
    std::memcpy(into.data() + (begin - first), buffer(Direction::read, i) + (begin - piece.begin), end - begin);
  }
  require_working();
}

void OffloadFile::write(void* address, std::span<const std::byte> from) {
  const std::uint64_t first = offset_of(address, from.size()), last = first + from.size();
  const Range range = range_around(address, from.size());
  for (std::size_t i = 0; i < range.pieces(); ++i) {
    const Range piece = range.piece(i);
    std::byte* const memory = buffer(Direction::write, i);
    const std::uint64_t begin = std::max(piece.begin, first), end = std::min(piece.end, last);
    // Blocks of which other bytes stay.
    if (begin > piece.begin) move(Direction::read, {piece.begin, piece.begin + kFileBlockBytes}, memory);
    if (end < piece.end)
      move(Direction::read, {piece.end - kFileBlockBytes, piece.end}, memory + (piece.bytes() - kFileBlockBytes));
    std::memcpy(memory + (begin - piece.begin), from.data() + (begin - first), end - begin);
    turn(Direction::write, range, i);
  }
  require_working();
}

std::byte* OffloadFile::buffer(Direction direction, std::size_t piece) const {
  const std::size_t first = direction == Direction::read ? 0 : kStagingPieces;
  return staging_.get() + (first + piece % kStagingPieces) * kStagingPieceBytes;
}

// A read is one piece ahead of the copies: the copy before has left the buffer.
void OffloadFile::turn(Direction direction, const Range& range, std::size_t piece) {
  const bool reads = direction == Direction::read;
  const std::size_t first = reads && piece > 0 ? piece + 1 : piece;
  const std::size_t end = std::min(reads ? piece + 2 : piece + 1, range.pieces());
  for (std::size_t i = first; i < end; ++i) lane(direction).begin(range.piece(i), buffer(direction, i));
  lane(direction).wait(piece + 1 < range.pieces() ? 1 : 0);
}

void OffloadFile::move(Direction direction, const Range& range, std::byte* memory) {
  if (has_failed_) return;
  const std::span bytes(memory, range.bytes());
  const int error = direction == Direction::read ? read_all(descriptor_.number(), bytes, range.begin)
                                                 : write_all(descriptor_.number(), bytes, range.begin);
  if (error != 0) fail(direction, error);
}

void OffloadFile::fail(Direction direction, int error) {
  const std::lock_guard lock(failure_mutex_);
  if (has_failed_) return;
  failure_ = std::string("cannot ") + (direction == Direction::read ? "read from" : "write to") + " the file in '" +
             folder_.string() + "' that has states of the optimizer (--offload-folder): " + text_of(error) +
             consequence_;
  has_failed_.store(true, std::memory_order_release);
}

void OffloadFile::throw_failure() const {
  const std::lock_guard lock(failure_mutex_);
  throw Error(failure_);
}

OffloadFile::Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void OffloadFile::Lane::begin(const Range& piece, std::byte* memory) {
  const std::lock_guard lock(mutex_);
  requests_[(first_ + count_++) % requests_.size()] = {piece, memory};
  changed_.notify_all();
}

void OffloadFile::Lane::wait(std::size_t left) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return count_ <= left; });
}

void OffloadFile::Lane::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return has_ended_ || count_ > 0; });
    if (count_ == 0) return;
    const Request request = requests_[first_];
    lock.unlock();
    file_.move(direction_, request.piece, request.memory);
    lock.lock();
    first_ = (first_ + 1) % requests_.size();
    --count_;
    changed_.notify_all();
  }
}

}  // namespace ridgepoint
