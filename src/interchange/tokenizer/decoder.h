// The decoders of tokenizer.json: they make text of tokens.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint::tokenizer {

// Changes the texts of tokens; in the end they are joined.
using DecodeStep = std::function<void(std::vector<std::string>&)>;

struct Decoder {
  std::vector<DecodeStep> steps;
  bool is_byte_level = false;  // no step but the letters of bytes, each token by itself
};

// `json` is the member "decoder"; null joins tokens by blanks. Throws Error for a kind that is not known, by name.
Decoder read_decoder(const Json& json);

// Of SentencePiece's vocabularies: U+2581 is a blank, <0x0A> a byte, and the first blank is left out if the encoder has
// put it there.
Decoder sentence_piece_decoder(bool leaves_out_first_blank);

}  // namespace ridgepoint::tokenizer
