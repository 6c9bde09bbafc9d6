// Gemma 2: caps of scores and logits, and a window in every second layer, the first one included.
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/gemma.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_gemma2(ConfigFields& fields) {
  TransformerConfig c = read_gemma(fields, {.logit_cap = 30});
  c.architecture.score_cap = read_cap(fields, "attn_logit_softcapping", 50);
  c.architecture.rotary = read_rotary(fields, c, 10000);
  read_windows(fields, c, fields.optional_size("sliding_window", 4096), windows_but_every(2, c.layers));
  return c;
}

void write_gemma2(const TransformerConfig& c, Json& fields) {
  write_gemma(c, fields);
  write_rotary(c.architecture.rotary, fields);
}

}  // namespace ridgepoint
