// LFM2: short convolutions between two gates in place of attention in most layers, and the same with experts.
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/hybrid/mixer_fields.h"

namespace ridgepoint {
namespace {

constexpr NamedMixer kLfmKinds[] = {{"conv", Mixer::short_convolution},
                                    {"full_attention", Mixer::attention},
                                    {"linear_attention", Mixer::short_convolution},
                                    {"short_conv", Mixer::short_convolution}};

constexpr WeightNames kLfmNames = {.final_norm = "embedding_norm",
                                   .output = "out_proj",
                                   .q_norm = "q_layernorm",
                                   .k_norm = "k_layernorm",
                                   .feed_forward = "feed_forward",
                                   .gate = "w1",
                                   .up = "w3",
                                   .down = "w2",
                                   .experts = "feed_forward",
                                   .expert_gate = "w1",
                                   .expert_up = "w3",
                                   .expert_down = "w2",
                                   .correction = "expert_bias",
                                   .norms = {"operator_norm", "", "ffn_norm", ""},
                                   .mixer = "conv",
                                   .convolution = "conv"};

// full_attn_idxs names the layers with attention; without it and layer_types, all have.
std::vector<Mixer> layers_by_number(ConfigFields& in, std::int64_t layers) {
  std::vector<Mixer> mixers(static_cast<std::size_t>(layers), Mixer::attention);
  if (const auto attending = read_layer_numbers(in, "full_attn_idxs", layers, "with attention")) {
    for (std::size_t layer = 0; layer < mixers.size(); ++layer)
      if (!(*attending)[layer]) mixers[layer] = Mixer::short_convolution;
  }
  return mixers;
}

void lfm2_layers(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  a.projection_norm = ProjectionNorm::per_head;
  fields.size("conv_L_cache", a.state.kernel, 3);
  fields.flag("conv_bias", a.state.convolution_bias, false);
  a.state.input_bias = a.state.output_bias = a.state.convolution_bias;
  std::vector<Mixer> absent;
  if (ConfigFields* in = fields.in()) {
    absent = layers_by_number(*in, c.layers);
    if (in->has("full_attn_idxs") && in->has("layer_types")) {
      TransformerConfig named = c;
      layer_mixers(fields, named, "layer_types", kLfmKinds, absent);
      for (std::int64_t layer = 0; layer < c.layers; ++layer) {
        if (named.architecture.mixer(layer) != absent[static_cast<std::size_t>(layer)])
          in->fail("full_attn_idxs", "and layer_types say different things of layer {}", layer);
      }
    }
    for (const char* key : {"conv_dim", "conv_dim_out", "block_dim"}) {
      if (in->size(key, c.d_model) != c.d_model) in->fail(key, "is not hidden_size, as this family has it");
    }
  }
  layer_mixers(fields, c, "layer_types", kLfmKinds, absent);
  fields.skip({"block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_swiglu",
               "block_use_xavier_init", "conv_use_xavier_init", "conv_init_scale", "use_pos_enc", "num_heads",
               "max_seq_len", "vocab_multiple_of", "theta"});
}

// The tied head has two names.
DecoderDefaults lfm2_defaults(FamilyFields& fields, DecoderDefaults defaults) {
  if (ConfigFields* in = fields.in()) {
    defaults.sizes.tied = in->flag("tie_embedding", true);
    defaults.theta = in->positive("theta", 1e6);
  }
  return defaults;
}

// The width is two thirds of the field, times a factor, rounded up to a multiple.
void lfm2_width(ConfigFields& in, TransformerConfig& c) {
  if (in.has("block_ff_dim")) c.d_ff = in.size("block_ff_dim", c.d_ff);
  const double factor = in.positive("block_ffn_dim_multiplier", 1);
  const std::int64_t multiple = in.size("block_multiple_of", 256);
  if (!in.flag("block_auto_adjust_ff_dim", true)) return;
  const std::int64_t two_thirds = 2 * c.d_ff / 3;
  const auto width = static_cast<std::int64_t>(factor * static_cast<double>(two_thirds));
  c.d_ff = (width + multiple - 1) / multiple * multiple;
}

void lfm2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, lfm2_defaults(fields, {.sizes = usual::lfm2, .epsilon_key = "norm_eps"}));
  lfm2_layers(fields, c);
  if (ConfigFields* in = fields.in()) lfm2_width(*in, c);
  fields.write("block_auto_adjust_ff_dim", false);
}

void lfm2_moe(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, lfm2_defaults(fields, {.sizes = usual::lfm2_moe,
                                           .intermediate_key = "moe_intermediate_size",
                                           .epsilon_key = "norm_eps"}));
  lfm2_layers(fields, c);
  Experts& routed = c.architecture.experts;
  fields.size("num_experts", routed.count, 32);
  fields.size("num_experts_per_tok", routed.per_token, 4);
  fields.flag("norm_topk_prob", routed.normalised, true);
  fields.flag("use_expert_bias", routed.rules.has_correction, true);
  fields.positive("routed_scaling_factor", routed.rules.scale, 1);
  routed.rules.scores = RouterScores::sigmoid;
  routed.rules.divisor_term = 1e-6;
  check_experts_per_token(fields, routed);
  expert_layers_from(fields, c, 2, 7168, "num_dense_layers");
  skip_auxiliary_loss(fields);
}

}  // namespace

extern const Family family_lfm2{"lfm2", "Lfm2ForCausalLM", lfm2, kLfmNames, kNotModelled};
extern const Family family_lfm2_moe{"lfm2_moe", "Lfm2MoeForCausalLM", lfm2_moe, kLfmNames, kNotModelled};

}  // namespace ridgepoint
