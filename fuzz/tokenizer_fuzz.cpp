// The readers of tokenizers. For any bytes they throw Error or make a tokenizer that encodes text to ids of its
// vocabulary.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "interchange/tokenizer/tokenizer.h"
#include "require.h"
#include "ridgepoint/core/error.h"

namespace {

using ridgepoint::tokenizer::Id;
using ridgepoint::tokenizer::Tokenizer;

void use(const Tokenizer& tokenizer) {
  std::vector<Id> ids;
  try {
    ridgepoint::tokenizer::Encoder(tokenizer).encode("Ab cé, 12\n\u2581 <s>", true, ids);
  } catch (const ridgepoint::Error&) {  // a character without a token
  }
  for (const Id id : ids) RIDGEPOINT_REQUIRE(id < tokenizer.vocabulary_size());
  (void)tokenizer.decode(ids);
}

template <typename Read>
void read_and_use(const Read& read) {
  try {
    use(read());
  } catch (const ridgepoint::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('{')) {
    read_and_use([&] { return ridgepoint::tokenizer::tokenizer_of_json(bytes); });
  } else {
    read_and_use([&] { return ridgepoint::tokenizer::tokenizer_of_sentence_piece(bytes); });
  }
  return 0;
}
