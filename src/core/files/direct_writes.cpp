#include "core/files/direct_writes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/files/direct_io.h"

namespace ridgepoint {

void DirectWrites::Free::operator()(std::byte* memory) const { std::free(memory); }

DirectWrites::DirectWrites(int descriptor) : descriptor_(descriptor) {
  for (Piece& piece : pieces_) {
    piece.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, kPieceBytes)));
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
  const int error = write_all(descriptor_, {piece.memory.get(), piece.bytes}, piece.offset);
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
