// Qwen3-Next and Qwen 3.5: three of four layers have the gated delta rule in place of attention, whose result has a
// gate in the others. Qwen 3.5 stores each projection by itself, and the experts of a layer in one tensor.
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/hybrid/mixer_fields.h"

namespace ridgepoint {
namespace {

constexpr NamedMixer kKinds[] = {{"linear_attention", Mixer::gated_delta}, {"full_attention", Mixer::attention}};

constexpr DecoderDefaults kNext = {.sizes = usual::qwen3_next,
                                   .intermediate_key = "moe_intermediate_size",
                                   .rotary_share = RotaryShare::may_be_partial,
                                   .share = 0.25};

// What all of them share: heads, gates, norms and the kinds of layers.
void delta_layers(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  attention_bias(fields, a, false);
  a.norm_adds_one = a.output_gate = true;
  a.projection_norm = ProjectionNorm::per_head;
  StateMixer& s = a.state;
  s.norm_epsilon = a.norm_epsilon;
  fields.size("linear_num_key_heads", s.key_heads, 16);
  fields.size("linear_num_value_heads", s.heads, 32);
  fields.size("linear_key_head_dim", s.key_size, 128);
  fields.size("linear_value_head_dim", s.value_size, 128);
  fields.size("linear_conv_kernel_dim", s.kernel, 4);
  require_silu(fields, c);
  std::vector<Mixer> absent;
  if (ConfigFields* in = fields.in()) {
    const std::int64_t period = in->size("full_attention_interval", 4);
    for (std::int64_t layer = 0; layer < c.layers; ++layer)
      absent.push_back((layer + 1) % period == 0 ? Mixer::attention : Mixer::gated_delta);
    if (!in->flag("attn_output_gate", true))
      in->fail("attn_output_gate", "is false; attention of this family always has a gate");
  }
  layer_mixers(fields, c, "layer_types", kKinds, absent);
  fields.skip({"mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"});
}

void shared_expert(FamilyFields& fields, TransformerConfig& c) {
  fields.size("shared_expert_intermediate_size", c.architecture.experts.shared_width, 512);
}

void qwen3_next(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, kNext);
  delta_layers(fields, c);
  qwen_experts(fields, c, {.count = 512, .per_token = 10}, {.dense_width = 5632, .normalised = true});
  fields.refuse("use_sliding_window", "sliding windows of this family are not supported");
  fields.skip({"sliding_window", "max_window_layers"});
  shared_expert(fields, c);
}

void qwen3_5(FamilyFields& fields, TransformerConfig& c) {
  DecoderDefaults defaults = kNext;
  defaults.sizes = usual::qwen3_5_text;
  defaults.intermediate_key = "intermediate_size";
  fields.decoder(c, defaults);
  delta_layers(fields, c);
  fields.refuse("mlp_only_layers", "there are no experts in this family, which a layer could be without");
}

void qwen3_5_moe(FamilyFields& fields, TransformerConfig& c) {
  DecoderDefaults defaults = kNext;
  defaults.sizes = usual::qwen3_5_moe_text;
  fields.decoder(c, defaults);
  delta_layers(fields, c);
  experts(fields, c, {.count = 256, .per_token = 8});
  c.architecture.experts.normalised = true;
  shared_expert(fields, c);
  fields.refuse("mlp_only_layers", "every layer of this family has experts");
  fields.skip({"norm_topk_prob", "decoder_sparse_step", "intermediate_size"});
}

}  // namespace

extern const Family family_qwen3_next{
    "qwen3_next", "Qwen3NextForCausalLM", qwen3_next, {.mixer = "linear_attn", .delta_by_group = true}, kNotModelled};
extern const Family family_qwen3_5_text{
    "qwen3_5_text", "Qwen3_5ForCausalLM", qwen3_5, {.mixer = "linear_attn"}, kNotModelled};
extern const Family family_qwen3_5_moe_text{"qwen3_5_moe_text",
                                            "Qwen3_5MoeForCausalLM",
                                            qwen3_5_moe,
                                            {.stored_experts = StoredExperts::halves, .mixer = "linear_attn"},
                                            kNotModelled};

}  // namespace ridgepoint
