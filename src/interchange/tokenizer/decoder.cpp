#include "interchange/tokenizer/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "core/text/text.h"
#include "interchange/tokenizer/model/byte_fallback.h"
#include "interchange/tokenizer/text/json_fields.h"
#include "interchange/tokenizer/text/normalizer.h"
#include "interchange/tokenizer/text/pre_tokenizer.h"
#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
namespace {

using Texts = std::vector<std::string>;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

void fuse(Texts& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  texts.clear();
  texts.push_back(std::move(all));
}

void join_by_blanks(Texts& texts) { texts.assign(1, fmt::format("{}", fmt::join(texts, " "))); }

void decode_letters(Texts& texts) {
  std::string all;
  for (const std::string& text : texts) all += from_letters(text).value_or(text);
  texts.assign(1, valid_utf8(all));
}

// Runs of byte tokens become their characters, or a U+FFFD each where they are none.
void decode_byte_tokens(Texts& texts) {
  constexpr std::string_view kReplacement = "\uFFFD";
  Texts result;
  std::string bytes;
  const auto end_run = [&] {
    if (bytes.empty()) return;
    std::string text;
    if (valid_utf8(bytes) == bytes) {
      text = bytes;
    } else {
      for (std::size_t i = 0; i < bytes.size(); ++i) text += kReplacement;
    }
    result.push_back(std::move(text));
    bytes.clear();
  };
  for (std::string& text : texts) {
    if (const auto byte = byte_of_token(text)) {
      bytes += static_cast<char>(*byte);
      continue;
    }
    end_run();
    result.push_back(std::move(text));
  }
  end_run();
  texts = std::move(result);
}

DecodeStep by_replacing(Normalizer replace) {
  return [replace = std::move(replace)](Texts& texts) {
    for (std::string& text : texts) text = replace(text);
  };
}

DecodeStep strip(const std::string& character, std::uint64_t most_at_start, std::uint64_t most_at_end) {
  if (character.empty() || length_of_first(character) != character.size()) {
    throw Error("the content of its Strip is not one character");
  }
  return [=](Texts& texts) {
    for (std::string& text : texts) {
      std::size_t begin = 0;
      for (std::uint64_t i = 0; i < most_at_start && text.substr(begin, character.size()) == character; ++i) {
        begin += character.size();
      }
      std::size_t end = text.size();
      for (std::uint64_t i = 0; i < most_at_end && end >= begin + character.size(); ++i) {
        if (text.compare(end - character.size(), character.size(), character) != 0) break;
        end -= character.size();
      }
      text = text.substr(begin, end - begin);
    }
  };
}

DecodeStep word_piece(const std::string& prefix, bool cleans_up) {
  return [=](Texts& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string& text = texts[i];
      if (i > 0 && !prefix.empty() && text.starts_with(prefix)) {
        text.erase(0, prefix.size());
      } else if (i > 0) {
        text.insert(0, " ");
      }
      if (!cleans_up) continue;
      constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kReplacements = {{{" .", "."},
                                                                                                {" ?", "?"},
                                                                                                {" !", "!"},
                                                                                                {" ,", ","},
                                                                                                {" ' ", "'"},
                                                                                                {" n't", "n't"},
                                                                                                {" 'm", "'m"},
                                                                                                {" do not", " don't"},
                                                                                                {" 's", "'s"},
                                                                                                {" 've", "'ve"},
                                                                                                {" 're", "'re"}}};
      for (const auto& [from, to] : kReplacements) replace_all(text, from, to);
    }
  };
}

DecodeStep metaspace(const std::string& replacement, bool leaves_out_first) {
  return [=](Texts& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i)
      replace_all(texts[i], replacement, i == 0 && leaves_out_first ? "" : " ");
  };
}

DecodeStep end_of_word(const std::string& suffix) {
  return [=](Texts& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) replace_all(texts[i], suffix, i + 1 == texts.size() ? "" : " ");
  };
}

void add(const Json& json, Decoder& decoder) {
  const auto kind = member<std::string>(json, "type");
  if (kind == "Sequence") {
    for (const Json& step : list_member(json, "decoders")) add(step, decoder);
  } else if (kind == "ByteLevel") {
    decoder.steps.emplace_back(decode_letters);
  } else if (kind == "Replace") {
    decoder.steps.push_back(by_replacing(read_replace(json)));
  } else if (kind == "ByteFallback") {
    decoder.steps.emplace_back(decode_byte_tokens);
  } else if (kind == "Fuse") {
    decoder.steps.emplace_back(fuse);
  } else if (kind == "Strip") {
    decoder.steps.push_back(strip(content_of(json, "content"), member_or(json, "start", std::uint64_t{0}),
                                  member_or(json, "stop", std::uint64_t{0})));
  } else if (kind == "WordPiece") {
    decoder.steps.push_back(word_piece(member_or<std::string>(json, "prefix", "##"), member_or(json, "cleanup", true)));
  } else if (kind == "Metaspace") {
    const auto replacement = member_or<std::string>(json, "replacement", std::string(kMetaspace));
    if (replacement.empty()) throw Error("its Metaspace has no replacement");
    decoder.steps.push_back(metaspace(replacement, read_prepend(json) != Prepend::never));
  } else if (kind == "BPEDecoder") {
    const auto suffix = member_or<std::string>(json, "suffix", "</w>");
    if (suffix.empty()) throw Error("its BPEDecoder has no suffix");
    decoder.steps.push_back(end_of_word(suffix));
  } else {
    throw unknown_kind("decoder", kind);
  }
  decoder.is_byte_level = decoder.steps.size() == 1 && kind == "ByteLevel";
}

}  // namespace

Decoder read_decoder(const Json& json) {
  Decoder decoder;
  if (json.is_null()) {
    decoder.steps.emplace_back(join_by_blanks);
  } else {
    add(json, decoder);
  }
  return decoder;
}

Decoder sentence_piece_decoder(bool leaves_out_first_blank) {
  Decoder decoder;
  decoder.steps = {metaspace(std::string(kMetaspace), false), decode_byte_tokens, fuse};
  if (leaves_out_first_blank) decoder.steps.push_back(strip(" ", 1, 0));
  return decoder;
}

}  // namespace ridgepoint::tokenizer
