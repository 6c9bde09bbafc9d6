#include "core/files/byte_stream.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// zlib's argument for the largest window, with gzip's header expected.
constexpr int kGzipWindow = MAX_WBITS + 16;

bool is_gzip(const InputFile& file) {
  std::array<std::uint8_t, 2> first{};
  if (file.size_bytes() < first.size()) return false;
  file.read_at(0, std::as_writable_bytes(std::span(first)));
  return first[0] == 0x1f && first[1] == 0x8b;
}

}  // namespace

// One gzip file of one or several members.
class Inflater {
 public:
  using ReadFile = std::function<std::size_t(std::uint8_t* into, std::size_t bytes)>;

  explicit Inflater(ReadFile read_file) : read_file_(std::move(read_file)), input_(kReadBytes) {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw Error("zlib could not be started; is the memory full?");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fewer than `bytes` only at the end, or where the data is damaged.
  std::size_t read(std::uint8_t* into, std::size_t bytes) {
    stream_.next_out = into;
    stream_.avail_out = static_cast<uInt>(bytes);
    while (stream_.avail_out > 0 && !finished_) {
      if (stream_.avail_in == 0) refill();
      step();
    }
    return bytes - stream_.avail_out;
  }

  // What is wrong with the data behind what was read; empty where nothing is.
  const std::string& problem() const { return problem_; }

 private:
  void stop_at(std::string problem) {
    problem_ = std::move(problem);
    finished_ = true;
  }

  void refill() {
    const std::size_t got = read_file_(input_.data(), input_.size());
    read_bytes_ += got;
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(got);
    if (got > 0) return;
    if (!between_members_)
      stop_at(fmt::format("its gzip data ends too early, after {} bytes: the file is truncated", read_bytes_));
    finished_ = true;
  }

  void step() {
    if (finished_) return;
    if (between_members_) {
      // Zeros behind the last member are padding, as gzip itself takes them.
      while (stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
      if (stream_.avail_in == 0) return;
      inflateReset(&stream_);
      between_members_ = false;
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_members_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      stop_at(fmt::format("its gzip data is damaged near byte {}: {}", read_bytes_ - stream_.avail_in,
                          stream_.msg != nullptr ? stream_.msg : zError(result)));
    }
  }

  ReadFile read_file_;
  std::vector<std::uint8_t> input_;
  std::uint64_t read_bytes_ = 0;
  z_stream stream_{};
  bool between_members_ = false;
  bool finished_ = false;
  std::string problem_;
};

ByteStream::ByteStream(const std::filesystem::path& path, OnProgress on_progress)
    : file_(path),
      on_progress_(std::move(on_progress)),
      buffer_(kReadBytes + kPaddingBytes),
      next_(buffer_.data()),
      end_(buffer_.data()) {
  if (is_gzip(file_)) {
    inflater_ =
        std::make_unique<Inflater>([this](std::uint8_t* into, std::size_t bytes) { return read_file(into, bytes); });
  }
}

ByteStream::~ByteStream() = default;

std::size_t ByteStream::read_file(std::uint8_t* into, std::size_t bytes) {
  const std::size_t wanted = std::min<std::uint64_t>(bytes, file_.size_bytes() - file_offset_);
  file_.read_at(file_offset_, std::as_writable_bytes(std::span(into, wanted)));
  file_offset_ += wanted;
  if (wanted > 0) report();
  return wanted;
}

void ByteStream::report() const {
  if (on_progress_) on_progress_(static_cast<double>(file_offset_) / static_cast<double>(file_.size_bytes()));
}

std::size_t ByteStream::read_some(std::uint8_t* into, std::size_t bytes) {
  return inflater_ != nullptr ? inflater_->read(into, bytes) : read_file(into, bytes);
}

// The bytes at the end; throws where they are not the end of the document.
std::size_t ByteStream::last_bytes() const {
  if (inflater_ != nullptr && !inflater_->problem().empty()) throw Error(inflater_->problem());
  return static_cast<std::size_t>(end_ - next_);
}

std::size_t ByteStream::request(std::size_t bytes) {
  const auto available = static_cast<std::size_t>(end_ - next_);
  if (available >= bytes) return available;
  if (at_end_) return last_bytes();
  if (bytes > kMaxRequestBytes) throw_error("{} bytes in one piece are more than is read", bytes);
  buffer_offset_ = offset();
  std::memmove(buffer_.data(), next_, available);
  if (bytes + kPaddingBytes > buffer_.size()) buffer_.resize(bytes + kPaddingBytes);
  const std::size_t room = buffer_.size() - kPaddingBytes - available;
  const std::size_t got = read_some(buffer_.data() + available, room);
  if (is_compressed()) report();  // a megabyte of the file may hold a gigabyte of the document
  at_end_ = got < room;
  next_ = buffer_.data();
  end_ = next_ + available + got;
  std::memset(buffer_.data() + available + got, 0, kPaddingBytes);
  return available + got < bytes ? last_bytes() : available + got;
}

bool ByteStream::skip(std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t here = std::min<std::uint64_t>(bytes, request(1));
    if (here == 0) return false;
    next_ += here;
    bytes -= here;
  }
  return true;
}

}  // namespace ridgepoint
