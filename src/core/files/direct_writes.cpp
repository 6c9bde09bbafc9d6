#include "core/files/direct_writes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/files/system_call.h"

namespace ridgepoint {
namespace {

// Of memory, offsets and sizes; no disk asks for more.
constexpr std::size_t kAlignment = 4096;

// Whether the file system takes the change.
bool set_direct(int descriptor, bool is_direct) {
#ifdef O_DIRECT
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
#else
  return !is_direct && descriptor >= 0;
#endif
}

// 0, or the system's number of the error.
int write_all(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put =
        uninterrupted([&] { return ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (put <= 0) return put < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return 0;
}

}  // namespace

void DirectWrites::Free::operator()(std::byte* memory) const { std::free(memory); }

DirectWrites::DirectWrites(int descriptor) : descriptor_(descriptor) {
  for (Piece& piece : pieces_) {
    piece.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kPieceBytes)));
    if (piece.memory == nullptr) throw std::bad_alloc();
  }
  set_direct(descriptor, true);
  for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
}

DirectWrites::~DirectWrites() { end_threads(); }

DirectWrites::Piece* DirectWrites::piece_in(Piece::State state) {
  const auto found = std::ranges::find(pieces_, state, &Piece::state);
  return found == pieces_.end() ? nullptr : &*found;
}

int DirectWrites::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (filled_ == nullptr) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return error_ != 0 || piece_in(Piece::State::empty) != nullptr; });
      if (error_ != 0) return error_;
      filled_ = piece_in(Piece::State::empty);
      filled_->bytes = 0;
      filled_->offset = next_offset_;
    }
    const std::size_t taken = std::min(bytes.size(), kPieceBytes - filled_->bytes);
    std::memcpy(filled_->memory.get() + filled_->bytes, bytes.data(), taken);
    filled_->bytes += taken;
    next_offset_ += taken;
    bytes = bytes.subspan(taken);
    if (filled_->bytes < kPieceBytes) continue;
    const std::lock_guard lock(mutex_);
    filled_->state = Piece::State::full;
    filled_ = nullptr;
    changed_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  return error_;
}

int DirectWrites::finish() {
  end_threads();
  // The rest is no multiple of what a disk writes at once.
  set_direct(descriptor_, false);
  if (error_ == 0 && filled_ != nullptr) put(*filled_);
  return error_;
}

// They end when all pieces are written.
void DirectWrites::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void DirectWrites::put(const Piece& piece) {
  const std::span<const std::byte> bytes(piece.memory.get(), piece.bytes);
  int error = write_all(descriptor_, bytes, piece.offset);
  // Some file systems refuse O_DIRECT only when they write.
  if (error == EINVAL && set_direct(descriptor_, false)) error = write_all(descriptor_, bytes, piece.offset);
  if (error == 0) return;
  const std::lock_guard lock(mutex_);
  if (error_ == 0) error_ = error;
}

void DirectWrites::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return has_ended_ || piece_in(Piece::State::full) != nullptr; });
    Piece* const piece = piece_in(Piece::State::full);
    if (piece == nullptr) return;
    piece->state = Piece::State::being_written;
    lock.unlock();
    put(*piece);
    lock.lock();
    piece->state = Piece::State::empty;
    changed_.notify_all();
  }
}

}  // namespace ridgepoint
