// OLMo 1: norms without weights, and limits of q, k and v. OLMo 2: norms of the results of attention and feed-forward,
// and of all queries and all keys together. OLMo 3: OLMo 2 with windows in three layers of four, whose rotary embedding
// is not scaled. OLMoE: Llama with the norms of OLMo 2 for queries and keys, their limits, and experts.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void olmo2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::olmo2});
  c.architecture.placement = NormPlacement::after;
  c.architecture.projection_norm = ProjectionNorm::whole;
  attention_bias(fields, c.architecture, false);
}

// The limit of q, k and v, whose field is null where there is none.
void limit(FamilyFields& fields, Architecture& a) {
  constexpr std::string_view kKey = "clip_qkv";
  if (ConfigFields* in = fields.in(); in != nullptr && in->has(kKey)) a.projection_limit = in->positive(kKey, 0);
  fields.skip({kKey});
  fields.write_or_null(kKey, a.projection_limit);
}

void olmo(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::olmo, .epsilon_key = "layer_norm_eps"});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  a.norm_weights = a.norm_biases = false;
  a.norm_epsilon = 1e-5;  // whatever the file says
  attention_bias(fields, a, false);
  limit(fields, a);
}

void read_rotaries(ConfigFields& in, TransformerConfig& c) {
  constexpr double kTheta = 500000;
  Architecture& a = c.architecture;
  if (!read_rotaries_by_kind(in, c, kTheta, kTheta)) {
    a.rotary = read_rotary(in, c, {.theta = kTheta});
    a.window_rotary.theta = a.rotary.theta;
  }
  for (const char* key : {"rope_theta", "rope_scaling"}) in.skip(key);
  a.separate_rotary = a.window_rotary != a.rotary;
}

void olmo3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::olmo3, .theta = std::nullopt});
  Architecture& a = c.architecture;
  if (fields.in() != nullptr) read_rotaries(*fields.in(), c);
  if (fields.out() != nullptr) write_rotary(a.rotary, *fields.out());
  write_rotaries_by_kind(fields, a);
  a.placement = NormPlacement::after;
  a.projection_norm = ProjectionNorm::whole;
  attention_bias(fields, a, false);
  windows(fields, c, 4096, windows_but_every(4, c.layers));
}

void olmoe(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::olmoe});
  Architecture& a = c.architecture;
  a.projection_norm = ProjectionNorm::whole;
  attention_bias(fields, a, false);
  limit(fields, a);
  experts(fields, c, {.count = 64, .per_token = 8});
  fields.flag("norm_topk_prob", a.experts.normalised, false);
}

constexpr WeightNames kNormsAfter = {.norms = {"", "post_attention_layernorm", "", "post_feedforward_layernorm"}};
constexpr TransformersCode kOlmo2Code = {.casts_rotated = true, .scales_norms_wide = true};

}  // namespace

extern const Family family_olmo2{"olmo2", "Olmo2ForCausalLM", olmo2, kNormsAfter, kOlmo2Code};
extern const Family family_olmo{"olmo", "OlmoForCausalLM", olmo, {}, {.casts_rotated = true}};
extern const Family family_olmo3{"olmo3", "Olmo3ForCausalLM", olmo3, kNormsAfter, kOlmo2Code};
extern const Family family_olmoe{"olmoe", "OlmoeForCausalLM", olmoe};

}  // namespace ridgepoint
