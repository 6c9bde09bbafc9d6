// Gemma 3, the text model: norms of queries and keys in each head, five layers with a window for each one without, and
// a rotary embedding of its own for those with a window.
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/gemma.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {
namespace {

constexpr double kTheta = 1e6;
constexpr double kWindowTheta = 10000;

// transformers 5 has an object for each kind of layers in rope_parameters.
bool read_rotaries_by_kind(ConfigFields& fields, Architecture& a) {
  std::optional<ConfigFields> both = fields.object("rope_parameters");
  if (!both || !both->has("full_attention")) return false;
  if (std::optional<ConfigFields> object = both->object("full_attention"))
    a.rotary = read_rotary_object(*object, kTheta);
  a.window_rotary.theta = kWindowTheta;
  if (std::optional<ConfigFields> object = both->object("sliding_attention"))
    a.window_rotary = read_rotary_object(*object, kWindowTheta);
  return true;
}

}  // namespace

TransformerConfig read_gemma3(ConfigFields& fields) {
  TransformerConfig c = read_gemma(fields, {.vocab = 262208, .max_positions = 131072});
  Architecture& a = c.architecture;
  a.projection_norm = ProjectionNorm::per_head;
  fields.refuse("attn_logit_softcapping", "transformers does not apply it to this family");
  a.separate_rotary = true;
  const double window_theta = fields.positive("rope_local_base_freq", kWindowTheta);
  if (!read_rotaries_by_kind(fields, a)) {
    a.rotary = read_rotary(fields, c, kTheta);
    a.window_rotary.theta = window_theta;
  }
  const std::int64_t period = fields.size("_sliding_window_pattern", fields.size("sliding_window_pattern", 6));
  read_windows(fields, c, fields.optional_size("sliding_window", 4096), windows_but_every(period, c.layers));
  return c;
}

void write_gemma3(const TransformerConfig& c, Json& fields) {
  write_gemma(c, fields);
  write_rotary(c.architecture.rotary, fields);
  fields["rope_local_base_freq"] = c.architecture.window_rotary.theta;
}

}  // namespace ridgepoint
