// Writes a large file past the page cache (O_DIRECT), some pieces at a time, while the caller makes the next ones.
// Through the page cache a file of gigabytes takes as long as the system allows so many unwritten pages: on two cores
// and an ext4 disk 0.3 to 0.5 GB/s where memory is short, and 1.0 to 1.9 GB/s past it.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace ridgepoint {

class DirectWrites {
 public:
  // Appends to an empty file. Where the file system refuses O_DIRECT, pieces go through the page cache.
  explicit DirectWrites(int descriptor);
  // Without finish(), what is left is dropped.
  ~DirectWrites();
  DirectWrites(const DirectWrites&) = delete;
  DirectWrites& operator=(const DirectWrites&) = delete;

  // Takes a copy of the bytes. Returns the system's number of the first error so far, 0 without one.
  int write(std::span<const std::byte> bytes);
  // Waits until the system has all bytes; the last call. Returns as write() does.
  int finish();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Piece {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
    std::uint64_t offset = 0;
    enum class State : std::uint8_t { empty, full, being_written } state = State::empty;
  };

  void run();  // the body of each thread
  void end_threads();
  void put(const Piece& piece);
  Piece* piece_in(Piece::State state);  // null if none is

  static constexpr std::size_t kPieceBytes = std::size_t{16} << 20;
  static constexpr std::size_t kThreads = 2, kPieces = 4;

  int descriptor_;
  std::array<Piece, kPieces> pieces_;
  Piece* filled_ = nullptr;  // that write() fills
  std::uint64_t next_offset_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  int error_ = 0;
  bool has_ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ridgepoint
