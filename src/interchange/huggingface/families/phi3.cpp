// Phi-3 and Phi-4: Llama whose projections of q, k and v, and of gate and up, are stored as one weight each. Phi-3.5
// MoE: layer norms, biases, and experts that SparseMixer chooses, stored as Mixtral's.

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void phi3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::phi3, .rotary_share = RotaryShare::may_be_partial});
  window_of_all_layers(fields, c, std::nullopt);
  fields.refuse("attention_bias", "biases of this family are not supported");
  fields.skip({"original_max_position_embeddings"});  // of scaled rotary embedding
  const Rotary& rotary = c.architecture.rotary;  // the field beside the object wins in transformers, and has a default
  if (rotary.scaling == RotaryScaling::longrope)
    fields.write("original_max_position_embeddings", rotary.original_context);
}

// The factor of cosines and sines is a field of its own, one up to the original context and one beyond it.
void phimoe_rotary(FamilyFields& fields, Rotary& rotary) {
  if (rotary.scaling == RotaryScaling::none) return;
  if (ConfigFields* in = fields.in()) {
    std::optional<ConfigFields> object = rotary_object(*in);
    for (const char* key : {"short_mscale", "long_mscale"}) {
      if (!object->has(key)) object->fail(key, "is missing; scaled rotary embedding of this family needs it");
    }
    rotary.amplitude = object->positive("short_mscale", 1);
    rotary.long_amplitude = object->positive("long_mscale", 1);
  }
  fields.write_into("rope_scaling", "short_mscale", rotary.amplitude);
  fields.write_into("rope_scaling", "long_mscale", rotary.long_amplitude);
}

void phimoe(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::phimoe, .theta = 1e6});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  attention_bias(fields, a, false);
  fields.flag("lm_head_bias", a.head_bias, false);
  phimoe_rotary(fields, a.rotary);
  experts(fields, c, {.count_key = "num_local_experts", .count = 16, .per_token = 2});
  ExpertRules& rules = a.experts.rules;
  rules.scores = RouterScores::sparse_mixer;
  if (ConfigFields* in = fields.in()) {
    rules.jitter = in->not_negative("router_jitter_noise", 0.01);
    in->note("experts are chosen as in evaluation: the best, then the best of the others; training samples them");
    if (in->not_negative("input_jitter_noise", 0) > 0)
      in->note("random noise before the router is off: input_jitter_noise");
    in->skip("original_max_position_embeddings");
  }
  fields.write("router_jitter_noise", rules.jitter);
  window_of_all_layers(fields, c, std::nullopt);
}

}  // namespace

extern const Family family_phimoe{
    "phimoe",
    "PhimoeForCausalLM",
    phimoe,
    {.experts = "block_sparse_moe", .expert_gate = "w1", .expert_up = "w3", .expert_down = "w2"},
    kNotModelled};
extern const Family family_phi3{
    "phi3", "Phi3ForCausalLM", phi3, {.qkv = "qkv_proj", .gate_up = "gate_up_proj"}, {.joins = Joins::one_by_one}};

}  // namespace ridgepoint
