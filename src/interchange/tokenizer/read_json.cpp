// tokenizer.json of the library `tokenizers`.

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/text/throw_error.h"
#include "interchange/tokenizer/model/bpe.h"
#include "interchange/tokenizer/model/unigram.h"
#include "interchange/tokenizer/model/word_piece.h"
#include "interchange/tokenizer/text/json_fields.h"
#include "interchange/tokenizer/text/utf8.h"
#include "interchange/tokenizer/tokenizer.h"

namespace ridgepoint::tokenizer {
namespace {

Id checked_id(const Json& value) {
  const auto id = value_of<std::uint64_t>(value, "id");
  if (id >= kIdLimit) throw_error("its vocabulary has the id {}; ids are below {}", id, kIdLimit);
  return static_cast<Id>(id);
}

Id id_of(const Vocabulary& vocabulary, const std::string& token) {
  const auto found = vocabulary.find(token);
  if (found == vocabulary.end()) throw_error("its vocabulary has no token {}", quote_name(token));
  return found->second;
}

void put(std::vector<std::string>& tokens, Id id, std::string token) {
  if (id >= tokens.size()) tokens.resize(id + std::size_t{1});
  tokens[id] = std::move(token);
}

Vocabulary read_vocabulary(const Json& model) {
  const Json* vocabulary = find_member(model, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object()) throw Error("its model has no object 'vocab'");
  Vocabulary result;
  for (const auto& [token, id] : vocabulary->items()) result.emplace(token, checked_id(id));
  if (result.empty()) throw Error("its vocabulary is empty");
  return result;
}

// A merge is "a b" or ["a", "b"].
std::pair<std::string, std::string> read_pair(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  const std::string text = merge.is_string() ? merge.get<std::string>() : "";
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos)
    throw_error("its merge {} is not two tokens", quote_name(merge.is_string() ? text : merge.dump()));
  return {text.substr(0, blank), text.substr(blank + 1)};
}

// The tokens' bytes. A token that is not in the letters of bytes is no word's; an added one is found before.
Vocabulary bytes_of(const Vocabulary& letters) {
  Vocabulary result;
  for (const auto& [token, id] : letters) {
    if (const std::optional<std::string> bytes = from_letters(token)) result.emplace(*bytes, id);
  }
  return result;
}

std::shared_ptr<const Model> read_bpe(const Json& json, TokenizerParts& parts) {
  Vocabulary vocabulary = read_vocabulary(json);
  BpeOptions options;
  options.is_byte_level = parts.pre_tokenizer.is_byte_level();
  if (member_or(json, "byte_fallback", false)) options.fallback = ByteFallback(vocabulary);
  options.fuses_unknown = member_or(json, "fuse_unk", false);
  options.takes_whole_words = member_or(json, "ignore_merges", false);
  options.continuing_prefix = member_or<std::string>(json, "continuing_subword_prefix", "");
  options.end_of_word = member_or<std::string>(json, "end_of_word_suffix", "");
  const auto unknown = member_or<std::string>(json, "unk_token", "");
  if (!unknown.empty()) options.unknown = id_of(vocabulary, unknown);
  if (member_or(json, "dropout", 0.0) != 0) throw unknown_kind("model", "BPE with dropout");
  const bool has_affixes = !options.continuing_prefix.empty() || !options.end_of_word.empty();
  if (options.is_byte_level && !options.continuing_prefix.empty()) {
    throw unknown_kind("model", "byte-level BPE with continuing_subword_prefix");
  }
  // The mark of a word's end is behind the letters of its last byte: such a word is its letters.
  const bool is_bytes = options.is_byte_level && options.end_of_word.empty();
  std::vector<BpeMerge> merges;
  std::uint32_t rank = 0;
  for (const Json& merge : list_member(json, "merges")) {
    const auto [left, right] = read_pair(merge);
    const bool has_prefix = !options.continuing_prefix.empty() && right.starts_with(options.continuing_prefix);
    const std::string merged = left + (has_prefix ? right.substr(options.continuing_prefix.size()) : right);
    merges.push_back({id_of(vocabulary, left), id_of(vocabulary, right), rank++, id_of(vocabulary, merged)});
  }
  for (const auto& [token, id] : vocabulary) put(parts.tokens, id, token);
  parts.kind = options.is_byte_level ? "byte-level BPE" : "BPE";
  const bool merges_alone = !options.is_byte_level && !has_affixes && !options.takes_whole_words;
  if (merges_alone && divides_at_metaspace(vocabulary)) parts.divides_above_bytes = 0;
  if (options.is_byte_level && !is_bytes) parts.pre_tokenizer.write_letters();
  options.is_byte_level = is_bytes;
  return std::make_shared<Bpe>(is_bytes ? bytes_of(vocabulary) : std::move(vocabulary), merges, std::move(options));
}

std::shared_ptr<const Model> read_unigram(const Json& json, TokenizerParts& parts) {
  std::vector<UnigramPiece> pieces;
  Vocabulary vocabulary;
  double least = 0;
  for (const Json& entry : list_member(json, "vocab")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      throw_error("entry {} of its vocabulary is not a token and a score", pieces.size());
    const auto id = static_cast<Id>(pieces.size());
    if (id >= kIdLimit) throw_error("its vocabulary has more than {} tokens", kIdLimit);
    pieces.push_back({entry[0].get<std::string>(), entry[1].get<double>(), id});
    least = std::min(pieces.size() == 1 ? std::numeric_limits<double>::infinity() : least, pieces.back().score);
    vocabulary.insert_or_assign(pieces.back().text, id);
    put(parts.tokens, id, pieces.back().text);
  }
  std::optional<Id> unknown;
  if (const Json* id = find_member(json, "unk_id")) unknown = checked_id(*id);
  if (unknown && *unknown >= pieces.size()) throw Error("its unk_id is beyond its vocabulary");
  parts.kind = "unigram";
  if (divides_at_metaspace(vocabulary)) parts.divides_above_bytes = kMostSummedBytes;
  const ByteFallback fallback = member_or(json, "byte_fallback", false) ? ByteFallback(vocabulary) : ByteFallback();
  return std::make_shared<Unigram<double>>(pieces, unknown, fallback, least);
}

std::shared_ptr<const Model> read_word_piece(const Json& json, TokenizerParts& parts) {
  const Vocabulary vocabulary = read_vocabulary(json);
  constexpr std::uint64_t kMostCharacters = 100;
  const Id unknown = id_of(vocabulary, member_or<std::string>(json, "unk_token", "[UNK]"));
  for (const auto& [token, id] : vocabulary) put(parts.tokens, id, token);
  parts.kind = "WordPiece";
  return std::make_shared<WordPiece>(vocabulary, unknown,
                                     member_or<std::string>(json, "continuing_subword_prefix", "##"),
                                     member_or(json, "max_input_chars_per_word", kMostCharacters));
}

std::shared_ptr<const Model> read_word_level(const Json& json, TokenizerParts& parts) {
  Vocabulary vocabulary = read_vocabulary(json);
  const auto found = vocabulary.find(member_or<std::string>(json, "unk_token", ""));
  const std::optional<Id> unknown = found == vocabulary.end() ? std::nullopt : std::optional(found->second);
  for (const auto& [token, id] : vocabulary) put(parts.tokens, id, token);
  parts.kind = "word level";
  return std::make_shared<WordLevel>(std::move(vocabulary), unknown);
}

std::shared_ptr<const Model> read_model(const Json& json, TokenizerParts& parts) {
  // Files of old versions do not name the kind.
  const auto kind = member_or<std::string>(json, "type", find_member(json, "merges") != nullptr ? "BPE" : "");
  const bool is_byte_level = parts.pre_tokenizer.is_byte_level();
  if (kind == "BPE") return read_bpe(json, parts);
  if (is_byte_level) throw unknown_kind("model", kind + " behind ByteLevel");
  if (kind == "Unigram") return read_unigram(json, parts);
  if (kind == "WordPiece") return read_word_piece(json, parts);
  if (kind == "WordLevel") return read_word_level(json, parts);
  throw unknown_kind("model", kind);
}

void read_added_tokens(const Json& json, TokenizerParts& parts) {
  if (find_member(json, "added_tokens") == nullptr) return;
  for (const Json& entry : list_member(json, "added_tokens")) {
    const Json* id = find_member(entry, "id");
    if (id == nullptr) throw Error("one of its added tokens has no id");
    AddedToken token;
    token.content = member<std::string>(entry, "content");
    token.id = checked_id(*id);
    token.is_single_word = member_or(entry, "single_word", false);
    token.strips_left = member_or(entry, "lstrip", false);
    token.strips_right = member_or(entry, "rstrip", false);
    token.is_normalized = member_or(entry, "normalized", !member_or(entry, "special", false));
    put(parts.tokens, token.id, token.content);
    if (token.is_normalized && parts.normalizer) token.content = parts.normalizer(token.content);
    parts.added.push_back(std::move(token));
  }
}

// TemplateProcessing: special tokens around the text.
void read_template(const Json& json, TokenizerParts& parts) {
  const Json* known = find_member(json, "special_tokens");
  std::vector<Id> before;
  std::vector<Id> after;
  int texts = 0;
  for (const Json& piece : list_member(json, "single")) {
    const Json* special = find_member(piece, "SpecialToken");
    if (special == nullptr) {
      if (find_member(piece, "Sequence") == nullptr)
        throw Error("its template has a piece that is no token and no text");
      ++texts;
      continue;
    }
    const auto name = member<std::string>(*special, "id");
    const Json* token = known == nullptr ? nullptr : find_member(*known, name);
    if (token == nullptr) throw_error("its template has the token {}, which it does not say", quote_name(name));
    for (const Json& id : list_member(*token, "ids")) (texts == 0 ? before : after).push_back(checked_id(id));
  }
  if (texts != 1) throw Error("its template does not have the text once", ErrorKind::unsupported);
  parts.before.insert(parts.before.begin(), before.begin(), before.end());
  parts.after.insert(parts.after.end(), after.begin(), after.end());
}

void read_post_processor(const Json& json, TokenizerParts& parts) {
  const auto kind = member<std::string>(json, "type");
  const auto id_in = [&](std::string_view key) {
    const Json& pair = list_member(json, key);
    if (pair.size() != 2) throw_error("its {} is not a token and an id", quote_name(std::string(key)));
    return checked_id(pair[1]);
  };
  if (kind == "ByteLevel") return;  // changes only where tokens begin in the text
  if (kind == "TemplateProcessing") return read_template(json, parts);
  if (kind == "RobertaProcessing" || kind == "BertProcessing") {
    parts.before.insert(parts.before.begin(), id_in("cls"));
    parts.after.push_back(id_in("sep"));
    return;
  }
  if (kind != "Sequence") throw unknown_kind("post-processor", kind);
  for (const Json& processor : list_member(json, "processors")) read_post_processor(processor, parts);
}

Tokenizer from_json(const Json& json) {
  const auto part = [&](std::string_view key) {
    const Json* value = find_member(json, key);
    return value == nullptr ? Json() : *value;
  };
  const Json* model = find_member(json, "model");
  if (model == nullptr) throw Error("it is not a tokenizer.json: it has no 'model'");
  TokenizerParts parts;
  parts.normalizer = read_normalizer(part("normalizer"));
  parts.pre_tokenizer = PreTokenizer(part("pre_tokenizer"));
  parts.model = read_model(*model, parts);
  read_added_tokens(json, parts);
  if (const Json* processor = find_member(json, "post_processor")) read_post_processor(*processor, parts);
  parts.decoder = read_decoder(part("decoder"));
  for (const std::vector<Id>* ids : {&parts.before, &parts.after}) {
    for (const Id id : *ids) {
      if (id >= parts.tokens.size()) throw_error("its special token {} is beyond its vocabulary", id);
    }
  }
  return Tokenizer(std::move(parts));
}

}  // namespace

Tokenizer tokenizer_of_json(std::string_view text) { return from_json(parse_json(text)); }

Tokenizer tokenizer_of_vocabulary(std::string_view vocabulary, std::string_view merges) {
  constexpr std::string_view kEndOfText = "<|endoftext|>";
  Json json;
  require_utf8(merges, "its file of merges");
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  json["decoder"] = {{"type", "ByteLevel"}};
  Json& model = json["model"];
  model = {{"type", "BPE"}, {"merges", Json::array()}};
  model["vocab"] = parse_json(vocabulary);
  if (const Json* id = find_member(model["vocab"], kEndOfText)) {
    json["added_tokens"].push_back({{"id", *id}, {"content", kEndOfText}, {"special", true}});
  }
  while (!merges.empty()) {
    const std::size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) model["merges"].push_back(line);
    merges.remove_prefix(std::min(end + 1, merges.size()));
  }
  return from_json(json);
}

}  // namespace ridgepoint::tokenizer
