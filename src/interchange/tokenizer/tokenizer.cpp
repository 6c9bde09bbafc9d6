#include "interchange/tokenizer/tokenizer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"
#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
namespace {

class Bytes : public Model {
 public:
  void encode(std::string_view word, std::vector<Id>& ids) const override {
    for (const char byte : word) ids.push_back(static_cast<unsigned char>(byte));
  }
};

// Calls on_part for the parts of a word that each begin with U+2581 behind another character.
template <typename OnPart>
void divide_at_metaspace(std::string_view word, const OnPart& on_part) {
  std::size_t begin = 0;
  for (std::size_t at = word.find(kMetaspace); at != std::string_view::npos; at = word.find(kMetaspace, at)) {
    if (at > begin) on_part(word.substr(begin, at - begin));
    begin = at;
    while (word.substr(at).starts_with(kMetaspace)) at += kMetaspace.size();
  }
  if (begin < word.size()) on_part(word.substr(begin));
}

// Up to eight bytes as a number.
std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, count);
  return value;
}

std::uint64_t mix(std::uint64_t value) {
  constexpr std::uint64_t kFactor = 0xD6E8FEB86659FD93;
  value = (value ^ value >> 32) * kFactor;
  return value ^ value >> 32;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (AddedToken& token : parts_.added) {
    (token.is_normalized ? normalized : raw).push_back(std::move(token));
  }
  parts_.added.clear();
  raw_ = AddedTokens(std::move(raw));
  normalized_ = AddedTokens(std::move(normalized));
  if (!parts_.decoder.is_byte_level) return;
  parts_.decoder.steps.clear();
  for (std::string& token : parts_.tokens) token = from_letters(token).value_or(token);
}

Id Tokenizer::id_of(std::string_view token) const {
  const auto found = std::ranges::find(parts_.tokens, token);
  if (found == parts_.tokens.end() || token.empty())
    throw_error(ErrorKind::usage, "the vocabulary has no token {}", quote_name(token));
  return static_cast<Id>(found - parts_.tokens.begin());
}

std::string Tokenizer::decode(std::span<const Id> ids) const {
  const auto token_at = [&](std::size_t i) -> const std::string& {
    if (ids[i] < parts_.tokens.size()) return parts_.tokens[ids[i]];
    throw_error("token {} at position {} is beyond the vocabulary, which has {}", ids[i], i, parts_.tokens.size());
  };
  std::string text;
  if (parts_.decoder.steps.empty()) {
    for (std::size_t i = 0; i < ids.size(); ++i) text += token_at(i);
    return text;
  }
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) texts.push_back(token_at(i));
  for (const DecodeStep& step : parts_.decoder.steps) step(texts);
  for (const std::string& part : texts) text += part;
  return text;
}

void Encoder::encode(std::string_view text, bool adds_special_tokens, std::vector<Id>& ids) {
  const TokenizerParts& parts = tokenizer_.parts_;
  if (!parts.takes_any_bytes) require_utf8(text, "it");
  if (adds_special_tokens) ids.insert(ids.end(), parts.before.begin(), parts.before.end());
  tokenizer_.raw_.for_each_part(text, [&](std::string_view part, std::optional<Id> id) {
    if (id) {
      ids.push_back(*id);
    } else {
      encode_piece(part, part.data() == text.data(), ids);
    }
  });
  if (adds_special_tokens) ids.insert(ids.end(), parts.after.begin(), parts.after.end());
}

void Encoder::encode_piece(std::string_view text, bool is_first, std::vector<Id>& ids) {
  std::string normalized;
  if (tokenizer_.parts_.normalizer) {
    normalized = tokenizer_.parts_.normalizer(text);
    text = normalized;
  }
  tokenizer_.normalized_.for_each_part(text, [&](std::string_view part, std::optional<Id> id) {
    if (id) {
      ids.push_back(*id);
    } else {
      encode_normalized(part, is_first && part.data() == text.data(), ids);
    }
  });
}

void Encoder::encode_normalized(std::string_view text, bool is_first, std::vector<Id>& ids) {
  const TokenizerParts& parts = tokenizer_.parts_;
  parts.pre_tokenizer.for_each_word(text, is_first, [&](std::string_view word, bool) {
    if (!parts.divides_above_bytes || word.size() <= *parts.divides_above_bytes) return encode_word(word, ids);
    divide_at_metaspace(word, [&](std::string_view part) { encode_word(part, ids); });
  });
}

void Encoder::encode_word(std::string_view word, std::vector<Id>& ids) {
  if (word.size() > WordCache::kMostWordBytes) return tokenizer_.parts_.model->encode(word, ids);
  const std::uint64_t hash = WordCache::hash(word);
  const std::span<const Id> known = cache_.find(word, hash);
  if (!known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  const std::size_t before = ids.size();
  tokenizer_.parts_.model->encode(word, ids);
  cache_.add(word, hash, std::span(ids).subspan(before));
}

bool divides_at_metaspace(const Vocabulary& vocabulary) {
  return vocabulary.contains(kMetaspace) && std::ranges::all_of(vocabulary, [](const auto& entry) {
           const std::string_view token = entry.first;
           bool has_other = false;
           for (std::size_t at = 0; at < token.size();) {
             const bool is_metaspace = token.substr(at).starts_with(kMetaspace);
             if (is_metaspace && has_other) return false;
             has_other = has_other || !is_metaspace;
             at += is_metaspace ? kMetaspace.size() : 1;
           }
           return true;
         });
}

Tokenizer byte_tokenizer() {
  TokenizerParts parts;
  parts.kind = "byte";
  parts.model = std::make_shared<Bytes>();
  parts.takes_any_bytes = true;
  for (int byte = 0; byte < 256; ++byte) parts.tokens.emplace_back(1, static_cast<char>(byte));
  return Tokenizer(std::move(parts));
}

std::uint64_t WordCache::hash(std::string_view word) {
  constexpr std::uint64_t kSeed = 0x9E3779B97F4A7C15;
  std::uint64_t state = kSeed ^ word.size();
  const char* bytes = word.data();
  std::size_t left = word.size();
  for (; left > 8; bytes += 8, left -= 8) state = mix(state ^ load(bytes, 8));
  return mix(state ^ load(bytes, left));
}

void WordCache::make_room() {
  if (slots_.size() == kMostSlots) {
    slots_.assign(kMostSlots, Slot());
    words_ = 0;
    bytes_.clear();
    ids_.clear();
    return;
  }
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.count != 0) slots_[place_of(text_of(slot), slot.hash)] = slot;
  }
}

void WordCache::add(std::string_view word, std::uint64_t hash, std::span<const Id> ids) {
  if (ids.empty() || ids.size() > std::numeric_limits<std::uint16_t>::max() || word.size() > kMostWordBytes) return;
  if (words_ >= slots_.size() / 2) make_room();
  slots_[place_of(word, hash)] = {hash, static_cast<std::uint32_t>(bytes_.size()),
                                  static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint16_t>(word.size()),
                                  static_cast<std::uint16_t>(ids.size())};
  bytes_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++words_;
}

}  // namespace ridgepoint::tokenizer
