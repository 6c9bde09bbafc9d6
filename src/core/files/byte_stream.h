// The bytes of a file, or of the document that a gzip file holds, from begin to end with a small buffer. Whether a file
// is gzip is decided by its first two bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "core/files/file.h"

namespace ridgepoint {

class Inflater;

class ByteStream {
 public:
  // The largest request() that is granted.
  static constexpr std::size_t kMaxRequestBytes = std::size_t{16} << 20;
  // Bytes after the last one that may be read, so that an operand need not be checked before it is decoded; they are 0.
  static constexpr std::size_t kPaddingBytes = 16;

  // Called with the share of the file that is read, about every megabyte of the document. It may throw to stop.
  using OnProgress = std::function<void(double share)>;

  // Throws Error if the file cannot be read.
  explicit ByteStream(const std::filesystem::path& path, OnProgress on_progress = nullptr);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  bool is_compressed() const { return inflater_ != nullptr; }

  // The buffered bytes [next, end). A reader may move next forward within them.
  const std::uint8_t* next() const { return next_; }
  const std::uint8_t* end() const { return end_; }
  void set_next(const std::uint8_t* next) { next_ = next; }
  // The offset in the document of a byte in the buffer.
  std::uint64_t offset_of(const std::uint8_t* byte) const {
    return buffer_offset_ + static_cast<std::uint64_t>(byte - buffer_.data());
  }
  std::uint64_t offset() const { return offset_of(next_); }

  // Makes at least `bytes` bytes available from next() on, fewer only where the document ends. Pointers into the buffer
  // become invalid. Returns the number of bytes available. Throws Error where damaged gzip data has fewer; the bytes
  // before the damage are then in the buffer.
  std::size_t request(std::size_t bytes);
  // Moves over `bytes` bytes. Returns false if the document ends before.
  bool skip(std::uint64_t bytes);

 private:
  std::size_t last_bytes() const;
  std::size_t read_some(std::uint8_t* into, std::size_t bytes);
  std::size_t read_file(std::uint8_t* into, std::size_t bytes);
  void report() const;

  InputFile file_;
  OnProgress on_progress_;
  std::uint64_t file_offset_ = 0;
  std::unique_ptr<Inflater> inflater_;
  std::vector<std::uint8_t> buffer_;
  std::uint64_t buffer_offset_ = 0;  // in the document
  const std::uint8_t* next_;
  const std::uint8_t* end_;
  bool at_end_ = false;
};

}  // namespace ridgepoint
