// Which reader a file needs.

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"
#include "interchange/tokenizer/tokenizer.h"

namespace ridgepoint::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostFileBytes = std::uint64_t{256} << 20;

// GPT-2's two files, by the names of the library and of the first release.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kPairs = {
    {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}}};

// The file that a folder's tokenizer is read from.
fs::path file_in(const fs::path& folder) {
  constexpr std::array<std::string_view, 5> kNames = {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json",
                                                      "encoder.json"};
  for (const std::string_view name : kNames) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  throw_error(
      "the folder {} has no tokenizer.json, tokenizer.model, spiece.model, vocab.json or "
      "encoder.json",
      quote_name(folder.string()));
}

// The merges of a vocabulary file, or the vocabulary of a file of merges.
std::optional<std::pair<fs::path, fs::path>> pair_of(const fs::path& path) {
  for (const auto& [vocabulary, merges] : kPairs) {
    if (path.filename() != vocabulary && path.filename() != merges) continue;
    std::pair<fs::path, fs::path> pair(path.parent_path() / vocabulary, path.parent_path() / merges);
    for (const fs::path& file : {pair.first, pair.second}) {
      if (!fs::exists(file)) throw_error("{} and {} are read together; the second is missing", vocabulary, merges);
    }
    return pair;
  }
  return std::nullopt;
}

}  // namespace

Tokenizer read_tokenizer(const std::string& name_or_path) {
  if (name_or_path == "byte") return byte_tokenizer();
  fs::path path = name_or_path;
  if (fs::is_directory(path)) path = file_in(path);
  try {
    if (const auto pair = pair_of(path)) {
      return tokenizer_of_vocabulary(read_file(pair->first, kMostFileBytes), read_file(pair->second, kMostFileBytes));
    }
    const std::string content = read_file(path, kMostFileBytes);
    // A message of protocol buffers begins with the key of a piece, a line feed; so may JSON.
    const bool is_json = path.extension() == ".json" || content.starts_with('{');
    return is_json ? tokenizer_of_json(content) : tokenizer_of_sentence_piece(content);
  } catch (const Error& error) {
    throw_error(error.kind(), "the tokenizer {} cannot be read: {}", quote_name(path.string()), error.what());
  }
}

}  // namespace ridgepoint::tokenizer
