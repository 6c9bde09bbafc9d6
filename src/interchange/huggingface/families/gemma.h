// What Gemma 2 and Gemma 3 have in common: norms before and after attention and feed-forward that multiply by
// 1 + weight, a scaled embedding that is also the head, caps, and windows in some layers.
#pragma once

#include <cstdint>

#include "interchange/huggingface/families/decoder.h"

namespace ridgepoint {

struct GemmaDefaults {
  std::int64_t vocab = 256000;
  std::int64_t max_positions = 8192;
  double logit_cap = 0;
};

TransformerConfig read_gemma(ConfigFields& fields, const GemmaDefaults& defaults);
void write_gemma(const TransformerConfig& config, Json& fields);
// `full` layers end each period of this many layers.
std::vector<bool> windows_but_every(std::int64_t period, std::int64_t layers);
// A cap, whose field is null where there is none.
double read_cap(ConfigFields& fields, std::string_view key, double absent);

}  // namespace ridgepoint
