// A file that holds tensors of a run (--offload-folder), for which the memory of the host is too small.
//
// The file has no name, so that nothing is left of it however the process ends, and all of its bytes are reserved
// before a run begins. Bytes go past the page cache, in pieces by way of staging memory: one thread reads and another
// writes while the next piece is copied. Of each direction two pieces are under way.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "core/files/system_call.h"
#include "plan/plan.h"

namespace ridgepoint {

class OffloadFile {
 public:
  enum class Direction : std::uint8_t { read, write };
  // Of the file, both ends aligned to kFileBlockBytes.
  struct Range {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t bytes() const { return end - begin; }
    std::size_t pieces() const { return (bytes() + kStagingPieceBytes - 1) / kStagingPieceBytes; }
    Range piece(std::size_t index) const;
  };

  // In a folder of the user. Throws Error (usage) where no file can be made there, and Error (unsupported) with what is
  // needed and free where the disk is full. `consequence` says what a later failure of the disk means.
  OffloadFile(std::filesystem::path folder, std::size_t bytes, std::string consequence = "");
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  std::size_t bytes() const { return bytes_; }  // as the file system says

  // Before the first read or write: kStagingBytes of the host, aligned as pages are. The threads begin.
  void set_staging(std::shared_ptr<std::byte> memory);

  // A place in the file stands in plans and launches as an address, at which there is no memory.
  static std::byte* address_of(std::size_t offset);
  // Throws Error (usage) for another address.
  std::uint64_t offset_of(const void* address, std::size_t bytes) const;

  // From and to any place, whole tensors or not. Throw Error, also where anything has failed before.
  void read(const void* address, std::span<std::byte> into);
  void write(void* address, std::span<const std::byte> from);

  // The same piece by piece. For each piece in order: turn(read) and then a copy out of its buffer, or a copy into its
  // buffer and then turn(write). A turn begins what can begin, and waits until the buffer of the next copy may be used,
  // the last turn of a range until all is read or written. It throws nothing; require_working() tells of failures. One
  // thread at a time may call it for each direction.
  std::byte* buffer(Direction direction, std::size_t piece) const;
  void turn(Direction direction, const Range& range, std::size_t piece);

  // Throws Error with the first failure of a read or write.
  void require_working() const {
    if (has_failed_.load(std::memory_order_acquire)) [[unlikely]]
      throw_failure();
  }

 private:
  // One thread, which reads or writes pieces in order.
  class Lane {
   public:
    Lane(OffloadFile& file, Direction direction) : file_(file), direction_(direction) {}
    ~Lane();
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    void start() {
      thread_ = std::thread([this] { run(); });
    }
    void begin(const Range& piece, std::byte* memory);
    void wait(std::size_t left);  // until no more are under way

   private:
    struct Request {
      Range piece;
      std::byte* memory = nullptr;
    };
    void run();

    OffloadFile& file_;
    Direction direction_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::array<Request, kStagingPieces> requests_;
    std::size_t first_ = 0, count_ = 0;
    bool has_ended_ = false;
    std::thread thread_;
  };

  void reserve(std::size_t bytes);
  void move(Direction direction, const Range& range, std::byte* memory);
  void fail(Direction direction, int error);
  [[noreturn]] void throw_failure() const;
  Lane& lane(Direction direction) { return direction == Direction::read ? reads_ : writes_; }
  Range range_around(const void* address, std::size_t bytes) const;

  std::filesystem::path folder_;
  std::string consequence_;
  Descriptor descriptor_;
  std::size_t bytes_ = 0;
  std::shared_ptr<std::byte> staging_;
  std::atomic<bool> has_failed_{false};
  mutable std::mutex failure_mutex_;
  std::string failure_;
  Lane reads_, writes_;  // end before what they use
};

}  // namespace ridgepoint
