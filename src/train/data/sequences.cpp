#include "train/data/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/files/checksum.h"
#include "core/random/element.h"
#include "core/text/throw_error.h"
#include "core/types/enum_names.h"
#include "interchange/tokens/documents.h"
#include "models/transformer/transformer.h"

namespace ridgepoint::train {
namespace {

constexpr int kRounds = 4;

constexpr auto kLayoutNames = enum_names<DocumentLayout>("packed", "apart");

constexpr std::size_t kTokensAtATime = std::size_t{1} << 20;

}  // namespace

std::string_view name(DocumentLayout layout) { return kLayoutNames[layout]; }
DocumentLayout document_layout_from_name(std::string_view text) { return kLayoutNames.parse(text, "'{}' is unknown"); }

std::uint64_t shuffled(std::uint64_t i, std::uint64_t count, std::uint64_t key) {
  const int half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);  // bits
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = i >> half;
    std::uint64_t right = i & mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t turned = left ^ (mix(key ^ mix(right + (static_cast<std::uint64_t>(round) << 62))) & mask);
      left = right;
      right = turned;
    }
    i = left << half | right;
  } while (i >= count);
  return i;
}

Sequences::Sequences(std::shared_ptr<const TokenStream> stream, const SequenceOptions& options)
    : stream_(std::move(stream)), options_(options) {
  const auto context = static_cast<std::uint64_t>(options_.context);
  if (options_.documents == DocumentLayout::packed) {
    end_ = stream_->size() == 0 ? 0 : static_cast<std::int64_t>((stream_->size() - 1) / context);
    if (end_ == 0)
      throw_error(ErrorKind::usage, "the data have {} tokens, but a sequence takes {} and one more", stream_->size(),
                  options_.context);
    return;
  }
  std::vector<Piece> pieces;
  std::uint64_t begin = 0;
  for (const std::uint64_t end : stream_->document_ends()) {
    for (; begin + 1 < end; begin += context)
      pieces.push_back({begin, static_cast<std::int64_t>(std::min(context + 1, end - begin))});
    begin = end;
  }
  if (pieces.empty()) throw Error("no document of the data has two tokens", ErrorKind::usage);
  end_ = std::ssize(pieces);
  pieces_ = std::make_shared<const std::vector<Piece>>(std::move(pieces));
}

std::pair<Sequences, Sequences> Sequences::split(double share) const {
  if (count() < 2)
    throw_error(ErrorKind::usage, "the data have {} sequence of {} tokens; a part for validation needs another one",
                count(), options_.context);
  const auto wanted = static_cast<std::int64_t>(std::llround(share * static_cast<double>(count())));
  const std::int64_t held = std::clamp<std::int64_t>(wanted, 1, count() - 1);
  std::pair<Sequences, Sequences> parts{*this, *this};
  parts.first.end_ = parts.second.begin_ = end_ - held;
  return parts;
}

Sequences::Piece Sequences::piece(std::int64_t i) const {
  if (pieces_ != nullptr) return (*pieces_)[static_cast<std::size_t>(i)];
  return {static_cast<std::uint64_t>(i * options_.context), options_.context + 1};
}

std::int64_t Sequences::place(std::int64_t n) const {
  const auto size = static_cast<std::uint64_t>(count());
  const auto epoch = static_cast<std::uint64_t>(n) / size;
  std::uint64_t i = static_cast<std::uint64_t>(n) % size;
  if (options_.is_shuffled) i = shuffled(i, size, mix(options_.seed + mix(epoch)));
  return static_cast<std::int64_t>(i);
}

std::vector<Id> Sequences::ids_at(std::int64_t place) const {
  const Piece from = piece(begin_ + place);
  std::vector<Id> ids(static_cast<std::size_t>(from.tokens));
  stream_->read(from.begin, ids);
  return ids;
}

std::string Sequences::fingerprint() const {
  constexpr std::int64_t kRead = 16;
  Checksum sum;
  sum.add(fmt::format("{} {} ", count(), options_.context));
  const std::int64_t read = std::min(kRead, count());
  for (std::int64_t i = 0; i < read; ++i) sum.add(std::as_bytes(std::span<const Id>(ids_at(i * count() / read))));
  return fmt::format("{:016x}", sum.value());
}

void Sequences::read(std::int64_t n, std::span<std::int64_t> inputs, std::span<std::int64_t> targets) const {
  const std::vector<Id> ids = ids_at(place(n));
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    inputs[k] = k < ids.size() ? ids[k] : 0;
    targets[k] = k + 1 < ids.size() ? std::int64_t{ids[k + 1]} : kIgnoredTarget;
  }
}

bool holds_tokens(const std::string& path) { return path.ends_with(".bin"); }

TokenStream::TokenStream(std::span<const std::string> paths, const Tokenizer* tokenizer, const StreamOptions& options)
    : bytes_each_(token_bytes(TokenBits::usual, options.vocabulary_size)) {
  for (const std::string& path : paths) {
    if (holds_tokens(path)) {
      add_tokens(path, options);
    } else {
      if (tokenizer == nullptr) throw_error("'{}' is a text, which needs a tokenizer", path);
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
    if (beyond != ids.end())
      throw_error("'{}' has token {}; the model has a vocabulary of {}", path, *beyond, options.vocabulary_size);
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
    throw_error("the data have {} tokens; {} from position {} on are not there", size_, into.size(), begin);
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
