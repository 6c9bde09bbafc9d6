// SentencePiece's .model: a message of protocol buffers.

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"
#include "interchange/tokenizer/model/bpe.h"
#include "interchange/tokenizer/model/unigram.h"
#include "interchange/tokenizer/text/charsmap.h"
#include "interchange/tokenizer/text/utf8.h"
#include "interchange/tokenizer/tokenizer.h"

namespace ridgepoint::tokenizer {
namespace {

[[noreturn]] void refuse_damaged() { throw Error("it is not a SentencePiece model, or it is damaged"); }

// A field of a message: a number, or the bytes of a text or a message.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

std::uint64_t read_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) refuse_damaged();
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  refuse_damaged();
}

std::string_view take(std::string_view& bytes, std::uint64_t count) {
  if (count > bytes.size()) refuse_damaged();
  const std::string_view taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

template <typename OnField>
void for_each_field(std::string_view message, const OnField& on_field) {
  while (!message.empty()) {
    const std::uint64_t key = read_varint(message);
    Field field{key >> 3, 0, {}};
    switch (key & 7) {
      case 0: field.value = read_varint(message); break;
      case 1: take(message, sizeof(std::uint64_t)); break;
      case 2: field.bytes = take(message, read_varint(message)); break;
      case 5: {
        std::uint32_t bits = 0;
        std::memcpy(&bits, take(message, sizeof bits).data(), sizeof bits);
        field.value = bits;
        break;
      }
      default: refuse_damaged();
    }
    on_field(field);
  }
}

// Types of pieces and of models.
constexpr std::uint64_t kNormal = 1;
constexpr std::uint64_t kUnknownPiece = 2;
constexpr std::uint64_t kControl = 3;
constexpr std::uint64_t kUserDefined = 4;
constexpr std::uint64_t kUnused = 5;
constexpr std::uint64_t kByte = 6;
constexpr std::uint64_t kUnigramModel = 1;
constexpr std::uint64_t kBpeModel = 2;
constexpr std::uint64_t kWordModel = 3;
constexpr std::uint64_t kCharacterModel = 4;

struct Piece {
  std::string text;
  float score = 0;
  std::uint64_t type = kNormal;
};

struct ModelFile {
  std::vector<Piece> pieces;
  std::uint64_t model_type = kUnigramModel;
  bool has_byte_fallback = false;
  bool writes_space_behind = false;
  std::int32_t begin = 1;
  std::int32_t end = 2;
  std::string_view charsmap;
  bool adds_first_space = true;
  bool removes_extra_spaces = true;
  bool writes_metaspaces = true;
};

Piece read_piece(std::string_view message) {
  Piece piece;
  for_each_field(message, [&](const Field& field) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == 3) piece.type = field.value;
  });
  require_utf8(piece.text, "a token of its vocabulary");
  constexpr std::size_t kMostPieceBytes = 1024;
  if (piece.text.empty() || piece.text.size() > kMostPieceBytes)
    throw_error("its vocabulary has a token of {} bytes; they have 1 to {}", piece.text.size(), kMostPieceBytes);
  if (piece.type == kUnused || piece.type < kNormal || piece.type > kByte)
    throw_error(ErrorKind::unsupported, "its token {} is of type {}, which this program does not read",
                quote_name(piece.text), piece.type);
  return piece;
}

ModelFile read_proto(std::string_view bytes) {
  ModelFile proto;
  for_each_field(bytes, [&](const Field& field) {
    if (field.number == 1) proto.pieces.push_back(read_piece(field.bytes));
    if (proto.pieces.size() > kIdLimit) throw_error("its vocabulary has more than {} tokens", kIdLimit);
    if (field.number == 2) {
      for_each_field(field.bytes, [&](const Field& trainer) {
        if (trainer.number == 3) proto.model_type = trainer.value;
        if (trainer.number == 24) proto.writes_space_behind = trainer.value != 0;
        if (trainer.number == 35) proto.has_byte_fallback = trainer.value != 0;
        if (trainer.number == 41) proto.begin = static_cast<std::int32_t>(trainer.value);
        if (trainer.number == 42) proto.end = static_cast<std::int32_t>(trainer.value);
      });
    }
    if (field.number == 3) {
      for_each_field(field.bytes, [&](const Field& normalizer) {
        if (normalizer.number == 2) proto.charsmap = normalizer.bytes;
        if (normalizer.number == 3) proto.adds_first_space = normalizer.value != 0;
        if (normalizer.number == 4) proto.removes_extra_spaces = normalizer.value != 0;
        if (normalizer.number == 5) proto.writes_metaspaces = normalizer.value != 0;
      });
    }
  });
  if (proto.pieces.empty()) refuse_damaged();
  return proto;
}

// Text as SentencePiece's models see it.
Normalizer make_normalizer(const ModelFile& proto) {
  const auto charsmap = std::make_shared<Charsmap>(proto.charsmap.empty() ? Charsmap() : Charsmap(proto.charsmap));
  const std::string space = proto.writes_metaspaces ? std::string(kMetaspace) : " ";
  return [charsmap, space, removes = proto.removes_extra_spaces,
          adds_first = proto.adds_first_space](std::string_view text) {
    std::string result;
    result.reserve(text.size() + text.size() / 2);
    bool follows_space = removes;
    bool is_empty = true;
    for (std::size_t at = 0; at < text.size();) {
      const auto match = charsmap->longest(text.substr(at));
      const std::size_t length = match ? match->length : length_of_first(text.substr(at));
      std::string_view part = match ? match->replacement : text.substr(at, length);
      at += length;
      while (follows_space && part.starts_with(' ')) part.remove_prefix(1);
      if (part.empty()) continue;
      if (is_empty && adds_first) result += space;
      is_empty = false;
      for (const char c : part) {
        if (c == ' ') {
          result += space;
        } else {
          result += c;
        }
      }
      follows_space = removes && part.back() == ' ';
    }
    while (removes && result.ends_with(space)) result.resize(result.size() - space.size());
    return result;
  };
}

// SentencePiece merges two neighbours where their text is a piece, the one of the greatest score first.
std::shared_ptr<const Model> make_bpe(const ModelFile& proto, const Vocabulary& vocabulary, BpeOptions options) {
  std::map<float, std::uint32_t, std::greater<>> ranks;
  for (const Piece& piece : proto.pieces) {
    if (piece.type == kNormal && !(piece.score == piece.score)) refuse_damaged();
    if (piece.type == kNormal) ranks.emplace(piece.score, 0);
  }
  std::uint32_t rank = 0;
  for (auto& entry : ranks) entry.second = rank++;
  std::vector<BpeMerge> merges;
  for (std::size_t id = 0; id < proto.pieces.size(); ++id) {
    const Piece& piece = proto.pieces[id];
    if (piece.type != kNormal) continue;
    const std::string_view text = piece.text;
    for (std::size_t at = length_of_first(text); at < text.size(); at += length_of_first(text.substr(at))) {
      const auto left = vocabulary.find(text.substr(0, at));
      const auto right = vocabulary.find(text.substr(at));
      if (left == vocabulary.end() || right == vocabulary.end()) continue;
      merges.push_back({left->second, right->second, ranks.at(piece.score), static_cast<Id>(id)});
    }
  }
  return std::make_shared<Bpe>(vocabulary, merges, std::move(options));
}

}  // namespace

Tokenizer tokenizer_of_sentence_piece(std::string_view bytes) {
  const ModelFile proto = read_proto(bytes);
  const bool is_bpe = proto.model_type == kBpeModel;
  if (!is_bpe && proto.model_type != kUnigramModel)
    throw_error(ErrorKind::unsupported, "its model is of type {} ({}), which this program does not read",
                proto.model_type,
                proto.model_type == kWordModel        ? "words"
                : proto.model_type == kCharacterModel ? "characters"
                                                      : "unknown");
  if (proto.writes_space_behind) {
    throw Error("its model has treat_whitespace_as_suffix, which this program does not read", ErrorKind::unsupported);
  }
  TokenizerParts parts;
  Vocabulary vocabulary;  // of what is found in text
  Vocabulary byte_tokens;
  std::vector<UnigramPiece> pieces;
  BpeOptions options;
  options.fuses_unknown = true;
  float least = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < proto.pieces.size(); ++i) {
    const Piece& piece = proto.pieces[i];
    const auto id = static_cast<Id>(i);
    parts.tokens.push_back(piece.type == kControl ? "" : piece.type == kUnknownPiece ? " \u2047 " : piece.text);
    if (piece.type == kUnknownPiece) options.unknown = id;
    if (piece.type == kByte && proto.has_byte_fallback) byte_tokens.emplace(piece.text, id);
    if (piece.type == kUserDefined) {
      parts.added.push_back({.content = piece.text, .id = id, .is_normalized = true});
    }
    if (piece.type != kNormal) continue;
    if (!vocabulary.emplace(piece.text, id).second)
      throw_error("its vocabulary has the token {} twice", quote_name(piece.text));
    pieces.push_back({piece.text, piece.score, id});
    least = std::min(least, piece.score);
  }
  parts.kind = is_bpe ? "SentencePiece BPE" : "SentencePiece unigram";
  if (divides_at_metaspace(vocabulary)) parts.divides_above_bytes = is_bpe ? 0 : kMostSummedBytes;
  options.fallback = ByteFallback(byte_tokens);
  if (is_bpe) {
    parts.model = make_bpe(proto, vocabulary, std::move(options));
  } else {
    parts.model = std::make_shared<Unigram<float>>(pieces, options.unknown, options.fallback, least);
  }
  parts.normalizer = make_normalizer(proto);
  parts.decoder = sentence_piece_decoder(proto.adds_first_space);
  const auto is_token = [&](std::int32_t id) { return id >= 0 && static_cast<std::size_t>(id) < proto.pieces.size(); };
  // Models that have a begin are given it alone (Llama), the others an end (T5).
  if (is_token(proto.begin)) {
    parts.before.push_back(static_cast<Id>(proto.begin));
  } else if (is_token(proto.end)) {
    parts.after.push_back(static_cast<Id>(proto.end));
  }
  return Tokenizer(std::move(parts));
}

}  // namespace ridgepoint::tokenizer
