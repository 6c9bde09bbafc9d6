// Files of tokens: their ids in little-endian integers of 16 or 32 bits, and nothing else, as nanoGPT writes and reads
// them; or behind the header of llm.c or llmq.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/files/file.h"

namespace ridgepoint {

enum class TokenBits : std::uint8_t { usual, b16, b32 };  // usual: 16 where all ids of the vocabulary fit

// Throws Error (usage) where the ids of the vocabulary need more.
std::size_t token_bytes(TokenBits bits, std::size_t vocabulary_size);

// The bytes of ids, which fit.
std::string token_bytes_of(std::span<const std::uint32_t> ids, std::size_t bytes_each);

// A file opened for reading at any position, also from several threads.
class TokenFile {
 public:
  // The header of llm.c and llmq says how many bits tokens have; `bits` is for a plain file. Throws Error for a file
  // that has no tokens, part of one, or fewer than its header says.
  TokenFile(std::filesystem::path path, TokenBits bits, std::size_t vocabulary_size);

  std::uint64_t size() const { return size_; }
  std::size_t bytes_each() const { return bytes_each_; }
  // The tokens from position `begin` on. Throws Error for one beyond the vocabulary, with its position.
  void read(std::uint64_t begin, std::span<std::uint32_t> into) const;

 private:
  InputFile file_;
  std::size_t vocabulary_size_;
  std::uint64_t first_byte_ = 0;
  std::uint64_t size_ = 0;
  std::size_t bytes_each_ = 0;
};

}  // namespace ridgepoint
