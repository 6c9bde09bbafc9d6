// Llama 4, the text model: chunks of attention in layers that rotate, others that see everything and rotate nothing,
// and experts whose inputs are weighed, beside one that every token has.
#include <algorithm>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

// moe_layers names them; without it, each interleave_moe_layer_step-th layer.
void expert_layers(FamilyFields& fields, TransformerConfig& c) {
  const Architecture& a = c.architecture;
  if (ConfigFields* in = fields.in()) {
    const std::int64_t step = in->size("interleave_moe_layer_step", 1);
    const auto named = read_layer_numbers(*in, "moe_layers", c.layers, "with experts");
    const std::vector<bool> layers =
        named ? *named : layers_where(c.layers, [&](std::int64_t layer) { return (layer + 1) % step == 0; });
    if (std::ranges::find(layers, true) == layers.end())
      in->fail("moe_layers", "leave none of the {} layers with experts", c.layers);
    set_expert_layers(c, layers, in->size("intermediate_size_mlp", 16384));
  }
  fields.write_layer_numbers("moe_layers", c, [&](std::int64_t layer) { return a.has_experts(layer); });
  fields.write("intermediate_size_mlp", a.experts.dense_width > 0 ? a.experts.dense_width : c.d_ff);
}

void layers_of_attention(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  a.chunks = true;
  if (ConfigFields* in = fields.in()) {
    const std::int64_t period = in->size("no_rope_layer_interval", in->size("nope_layer_interval", 4));
    std::vector<bool> rotated =
        read_layer_flags(*in, "no_rope_layers", c.layers).value_or(windows_but_every(period, c.layers));
    read_windows(*in, c, in->optional_size("attention_chunk_size", 8192), rotated);
    rotated.flip();
    a.unrotated_layers = pattern_of(rotated, false);
  }
  fields.write_layers("no_rope_layers", c, [&](std::int64_t layer) { return a.is_rotated(layer) ? 1 : 0; });
  fields.write_or_null("attention_chunk_size", a.window);
  write_layer_types(fields, c);
}

void llama4(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::llama4, .theta = 500000});
  Architecture& a = c.architecture;
  attention_bias(fields, a, false);
  fields.choice("use_qk_norm", a.projection_norm, ProjectionNorm::unweighted, ProjectionNorm::none, true);
  experts(fields, c, {.count_key = "num_local_experts", .count = 16, .per_token = 1});
  a.experts.rules.scores = RouterScores::sigmoid;
  a.experts.rules.weighs_inputs = true;
  a.experts.shared_gate = false;
  a.experts.shared_width = c.d_ff;
  expert_layers(fields, c);
  layers_of_attention(fields, c);
  QueryGrowth& growth = a.query_growth;
  bool grows = growth.strength > 0;
  fields.flag("attn_temperature_tuning", grows, true);
  double strength = growth.strength;
  std::int64_t length = growth.length;
  if (grows || fields.in() != nullptr) {
    fields.positive("attn_scale", strength, 0.1);
    fields.size("floor_scale", length, 8192);
  }
  growth = grows ? QueryGrowth{strength, length, 1, true} : QueryGrowth();
  fields.refuse("router_jitter_noise", "random noise at the router is not supported");
  fields.skip({"for_llm_compressor"});
}

}  // namespace

extern const Family family_llama4{"llama4_text",
                                  "Llama4ForCausalLM",
                                  llama4,
                                  {.feed_forward = "feed_forward",
                                   .experts = "feed_forward",
                                   .router = "router",
                                   .stored_experts = StoredExperts::transposed,
                                   .adjacent_pairs = true},
                                  kNotModelled};

}  // namespace ridgepoint
