#include "interchange/tokens/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

// llm.c: 256 integers of 32 bits before the tokens.
constexpr std::size_t kHeaderIntegers = 256;
constexpr std::uint64_t kHeaderBytes = kHeaderIntegers * sizeof(std::uint32_t);
constexpr std::uint32_t kMagic = 20240520;
constexpr std::uint32_t kVersionOf16Bits = 1;
constexpr std::uint32_t kVersionOf32Bits = 7;

// llmq: the mark, then five integers in a header as long as that of llm.c.
constexpr std::array<char, 8> kMarkOfLlmq = {'B', 'I', 'N', '.', 'T', 'O', 'K', '\n'};
constexpr std::uint32_t kVersionOfLlmq = 2;

constexpr std::size_t kIdsOf16Bits = 1 << 16;

}  // namespace

std::size_t token_bytes(TokenBits bits, std::size_t vocabulary_size) {
  const bool fits = vocabulary_size <= kIdsOf16Bits;
  if (bits == TokenBits::b16 && !fits)
    throw_error(ErrorKind::usage, "--bits: 16 bits hold {} ids, and the vocabulary has {}; choose 32", kIdsOf16Bits,
                vocabulary_size);
  return bits == TokenBits::b32 || !fits ? sizeof(std::uint32_t) : sizeof(std::uint16_t);
}

std::string token_bytes_of(std::span<const std::uint32_t> ids, std::size_t bytes_each) {
  std::string bytes;
  bytes.reserve(ids.size() * bytes_each);
  for (const std::uint32_t id : ids) {
    for (std::size_t byte = 0; byte < bytes_each; ++byte) bytes += static_cast<char>(id >> 8 * byte & 0xFF);
  }
  return bytes;
}

TokenFile::TokenFile(std::filesystem::path path, TokenBits bits, std::size_t vocabulary_size)
    : file_(std::move(path)), vocabulary_size_(vocabulary_size), bytes_each_(token_bytes(bits, vocabulary_size)) {
  const auto refuse = [&](const std::string& why) {
    throw_error("'{}' is no file of tokens: {}", file_.path().string(), why);
  };
  // Of llm.c: magic, version, tokens. Of llmq: two of the mark, version, bytes of a token, tokens.
  std::array<std::uint32_t, 5> header{};
  const std::uint64_t bytes = file_.size_bytes();
  if (bytes >= kHeaderBytes) file_.read_at(0, std::as_writable_bytes(std::span(header)));
  if (std::memcmp(header.data(), kMarkOfLlmq.data(), kMarkOfLlmq.size()) == 0) {
    if (header[2] != kVersionOfLlmq || (header[3] != sizeof(std::uint16_t) && header[3] != sizeof(std::uint32_t))) {
      refuse(fmt::format("its header has version {} and tokens of {} bytes, which this program does not read",
                         header[2], header[3]));
    }
    bytes_each_ = header[3];
    first_byte_ = kHeaderBytes;
    size_ = header[4];
  } else if (header[0] == kMagic) {
    if (header[1] != kVersionOf16Bits && header[1] != kVersionOf32Bits) {
      refuse(fmt::format("its header has version {}, which this program does not read", header[1]));
    }
    bytes_each_ = header[1] == kVersionOf16Bits ? sizeof(std::uint16_t) : sizeof(std::uint32_t);
    first_byte_ = kHeaderBytes;
    size_ = header[2];
  } else {
    size_ = bytes / bytes_each_;
    if (bytes % bytes_each_ != 0) refuse(fmt::format("its {} bytes are not whole tokens of {}", bytes, bytes_each_));
  }
  if ((bytes - first_byte_) / bytes_each_ < size_) {
    refuse(fmt::format("its header says {} tokens, and {} bytes follow", size_, bytes - first_byte_));
  }
  if (size_ == 0) refuse("it has no token");
}

void TokenFile::read(std::uint64_t begin, std::span<std::uint32_t> into) const {
  if (begin > size_ || into.size() > size_ - begin)
    throw_error("'{}' has {} tokens; {} from position {} on are not there", file_.path().string(), size_, into.size(),
                begin);
  std::vector<unsigned char> bytes(into.size() * bytes_each_);
  file_.read_at(first_byte_ + begin * bytes_each_, std::as_writable_bytes(std::span(bytes)));
  for (std::size_t i = 0; i < into.size(); ++i) {
    std::uint32_t id = 0;
    for (std::size_t byte = bytes_each_; byte-- > 0;) id = id << 8 | bytes[i * bytes_each_ + byte];
    into[i] = id;
    if (id >= vocabulary_size_) {
      const bool is_plain = first_byte_ == 0;
      throw_error(
          "'{}' has token {} at position {}; the vocabulary has {}{}", file_.path().string(), id, begin + i,
          vocabulary_size_,
          is_plain ? fmt::format(", so the file is read as integers of {} bits", 8 * bytes_each_) : std::string());
    }
  }
}

}  // namespace ridgepoint
