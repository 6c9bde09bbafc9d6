#include "train/data/token_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "interchange/tokens/documents.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::train {
namespace {

constexpr std::size_t kTokensAtATime = std::size_t{1} << 20;

}  // namespace

bool holds_tokens(const std::string& path) { return path.ends_with(".bin"); }

TokenStream::TokenStream(std::span<const std::string> paths, const Tokenizer* tokenizer, const StreamOptions& options)
    : bytes_each_(token_bytes(TokenBits::usual, options.vocabulary_size)) {
  for (const std::string& path : paths) {
    if (holds_tokens(path)) {
      add_tokens(path, options);
    } else {
      if (tokenizer == nullptr) throw Error(fmt::format("'{}' is a text, which needs a tokenizer", path));
      add_text(path, *tokenizer, options);
    }
  }
}

void TokenStream::add_text(const std::string& path, const Tokenizer& tokenizer, const StreamOptions& options) {
  Part& part = parts_.emplace_back();
  part.begin = size_;
  const Documents documents(path);
  const EncodeOptions encode{options.adds_special_tokens, options.end_token};
  encode_documents(documents, tokenizer, encode, [&](std::span<const Id> ids) {
    if (options.stop_point) options.stop_point();
    const auto beyond = std::ranges::find_if(ids, [&](Id id) { return id >= options.vocabulary_size; });
    if (beyond != ids.end()) {
      throw Error(
          fmt::format("'{}' has token {}; the model has a vocabulary of {}", path, *beyond, options.vocabulary_size));
    }
    part.encoded += token_bytes_of(ids, bytes_each_);
    size_ += ids.size();
    if (options.finds_documents && !ids.empty()) document_ends_.push_back(size_);
  });
}

void TokenStream::add_tokens(const std::string& path, const StreamOptions& options) {
  Part& part = parts_.emplace_back();
  part.begin = size_;
  part.file = std::make_unique<TokenFile>(path, options.bits, options.vocabulary_size);
  size_ += part.file->size();
  if (!options.finds_documents) return;
  if (options.end_token) find_ends(part, *options.end_token, options);
  if (document_ends_.empty() || document_ends_.back() != size_) document_ends_.push_back(size_);
}

void TokenStream::find_ends(const Part& part, Id end_token, const StreamOptions& options) {
  std::vector<Id> ids;
  for (std::uint64_t at = 0; at < part.file->size(); at += ids.size()) {
    if (options.stop_point) options.stop_point();
    ids.resize(std::min<std::uint64_t>(kTokensAtATime, part.file->size() - at));
    part.file->read(at, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == end_token) document_ends_.push_back(part.begin + at + i + 1);
    }
  }
}

void TokenStream::read_encoded(const Part& part, std::uint64_t begin, std::span<Id> into) const {
  const char* from = part.encoded.data() + begin * bytes_each_;
  for (std::size_t i = 0; i < into.size(); ++i, from += bytes_each_) {
    into[i] = 0;
    std::memcpy(&into[i], from, bytes_each_);
  }
}

void TokenStream::read(std::uint64_t begin, std::span<Id> into) const {
  if (begin > size_ || into.size() > size_ - begin)
    throw Error(
        fmt::format("the data have {} tokens; {} from position {} on are not there", size_, into.size(), begin));
  auto part = std::ranges::upper_bound(parts_, begin, {}, &Part::begin) - 1;
  while (!into.empty()) {
    const auto next = part + 1;
    const std::uint64_t end = next == parts_.end() ? size_ : next->begin;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), end - begin));
    if (part->file != nullptr) {
      part->file->read(begin - part->begin, into.first(count));
    } else {
      read_encoded(*part, begin - part->begin, into.first(count));
    }
    begin += count;
    into = into.subspan(count);
    part = next;
  }
}

}  // namespace ridgepoint::train
