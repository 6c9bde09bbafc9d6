// Models with Mamba-2's state space: Mamba 2, which has nothing else; layers of one part each, a state space,
// attention, a network or experts (Nemotron-H); state spaces and attention in place of each other (Granite 4), and side
// by side (Falcon-H1).
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/hybrid/mixer_fields.h"

namespace ridgepoint {
namespace {

// The kinds of Nemotron-H's layers: a letter of hybrid_override_pattern, or a name in layers_block_type.
struct NemotronKind {
  char letter;
  std::array<std::string_view, 2> names;
  Mixer mixer;
  bool has_network, has_experts;
};
constexpr std::array<NemotronKind, 4> kNemotronKinds = {{
    {'M', {"mamba", "linear_attention"}, Mixer::state_space, false, false},
    {'*', {"attention", "full_attention"}, Mixer::attention, false, false},
    {'-', {"mlp", "mlp"}, Mixer::none, true, false},
    {'E', {"moe", "moe"}, Mixer::none, true, true},
}};
constexpr std::string_view kPattern = "hybrid_override_pattern";
constexpr std::string_view kList = "layers_block_type";

// The letters of the layers: of the list, which transformers prefers, or of the pattern.
std::string read_pattern(ConfigFields& in) {
  std::string letters;
  const auto add = [&](std::string_view key, const std::string& text, const auto& is_meant) {
    const auto* kind = std::ranges::find_if(kNemotronKinds, is_meant);
    if (kind == kNemotronKinds.end())
      in.fail(key, "has a layer of kind '{}'; there are M (mamba), * (attention), - (mlp) and E (moe)",
              text.substr(0, 64));
    letters += kind->letter;
  };
  const std::string pattern = in.text(kPattern, "");
  for (const char letter : pattern)
    add(kPattern, std::string(1, letter), [&](const NemotronKind& kind) { return kind.letter == letter; });
  const Json* list = in.find(kList);
  if (list == nullptr) return letters;
  if (!list->is_array()) in.fail(kList, "must be a list of the kinds of layers");
  const std::string other = std::exchange(letters, {});
  for (const Json& entry : *list) {
    const std::string name = entry.is_string() ? entry.get<std::string>() : dump_json(entry);
    add(kList, name, [&](const NemotronKind& kind) { return std::ranges::find(kind.names, name) != kind.names.end(); });
  }
  if (!other.empty() && other != letters) in.fail(kList, "says {}, and {} {}", letters, kPattern, other);
  return letters;
}

const NemotronKind& nemotron_kind(const Architecture& a, std::int64_t layer) {
  return *std::ranges::find_if(kNemotronKinds, [&](const NemotronKind& kind) {
    return kind.mixer == a.mixer(layer) && kind.has_experts == a.has_experts(layer);
  });
}

void set_nemotron_layers(TransformerConfig& c, const std::string& letters) {
  std::vector<Mixer> mixers;
  std::vector<bool> networks, experts;
  for (const char letter : letters) {
    const auto* kind = std::ranges::find(kNemotronKinds, letter, &NemotronKind::letter);
    mixers.push_back(kind->mixer);
    networks.push_back(kind->has_network);
    experts.push_back(kind->has_experts);
  }
  set_mixers(c, mixers);
  c.architecture.feed_forward_layers = pattern_of(networks, true);
  if (letters.find('E') != std::string::npos) c.architecture.experts.layers = pattern_of(experts, true);
}

// Of layers with experts and of networks alone; without experts, the width is that of the networks.
void nemotron_experts(FamilyFields& fields, TransformerConfig& c, bool has_networks) {
  Experts& experts = c.architecture.experts;
  ExpertRules& rules = experts.rules;
  fields.size("n_routed_experts", experts.count, 8);
  fields.size("num_experts_per_tok", experts.per_token, 2);
  fields.size("n_group", rules.groups, 1);
  fields.size("topk_group", rules.groups_per_token, 1);
  fields.flag("norm_topk_prob", experts.normalised, true);
  fields.positive("routed_scaling_factor", rules.scale, 1);
  fields.size("moe_shared_expert_intermediate_size", experts.shared_width, 7688);
  experts.shared_gate = false;
  rules.scores = RouterScores::sigmoid;
  rules.has_correction = rules.squared_relu = true;
  check_experts_per_token(fields, experts);
  if (ConfigFields* in = fields.in()) {
    if (in->size("n_shared_experts", 1) != 1)
      in->fail("n_shared_experts", "is not 1, as all models of this family have");
    rules.latent_width = in->optional_size("moe_latent_size", std::nullopt).value_or(0);
    experts.dense_width = has_networks ? c.d_ff : 0;
    c.d_ff = in->size("moe_intermediate_size", 7688);
    return;
  }
  fields.write_or_null("moe_latent_size", rules.latent_width);
  fields.write("n_shared_experts", 1);
  fields.write("moe_intermediate_size", c.d_ff);
  fields.write("intermediate_size", has_networks ? experts.dense_width : c.d_ff);
}

void nemotron_h(FamilyFields& fields, TransformerConfig& c) {
  DecoderDefaults defaults = {.sizes = usual::nemotron_h,
                              .activation_key = "mlp_hidden_act",
                              .activation = "relu2",
                              .theta = std::nullopt,
                              .epsilon_key = "layer_norm_epsilon"};
  std::string letters;
  if (ConfigFields* in = fields.in()) {
    letters = read_pattern(*in);
    if (letters.empty()) letters = "ME*-";
    if (in->has("attention_head_dim")) defaults.sizes.head_dim = in->size("attention_head_dim", 128);
    defaults.sizes.layers = std::min(static_cast<std::int64_t>(letters.size()), kMostLayers);
  }
  fields.decoder(c, defaults);
  Architecture& a = c.architecture;
  if (ConfigFields* in = fields.in()) {
    if (c.layers != static_cast<std::int64_t>(letters.size()))
      in->fail("num_hidden_layers", "is {}, but {} layers are described: {}", c.layers, letters.size(),
               letters.substr(0, 99));
    if (a.activation != Activation::relu_squared)
      in->fail("mlp_hidden_act", "is not relu2, the activation that this family has");
    set_nemotron_layers(c, letters);
  } else {
    for (std::int64_t layer = 0; layer < c.layers; ++layer) letters += nemotron_kind(a, layer).letter;
    fields.write(kPattern, letters);
  }
  a.gated = false;
  a.unrotated_layers = {true};
  attention_bias(fields, a, false);
  fields.flag("mlp_bias", a.feed_forward_bias, false);
  StateMixer& s = a.state;
  s.gate_norm = GateNorm::norm_of_product;
  s.norm_epsilon = a.norm_epsilon;
  fields.size("mamba_num_heads", s.heads, 128);
  fields.size("mamba_head_dim", s.value_size, 64);
  fields.size("ssm_state_size", s.key_size, 128);
  fields.size("n_groups", s.key_heads, 8);
  fields.size("conv_kernel", s.kernel, 4);
  fields.flag("use_conv_bias", s.convolution_bias, true);
  fields.flag("use_bias", s.input_bias, false);
  s.output_bias = s.input_bias;
  s.norm_groups = s.key_heads;
  step_limits(fields, s);
  if (letters.find('E') != std::string::npos) {
    nemotron_experts(fields, c, letters.find('-') != std::string::npos);
  } else {
    fields.skip({"n_routed_experts", "num_experts_per_tok", "n_group", "topk_group", "norm_topk_prob",
                 "routed_scaling_factor", "n_shared_experts", "moe_intermediate_size",
                 "moe_shared_expert_intermediate_size", "moe_latent_size"});
  }
  fields.refuse("sliding_window", "windows of this family are not supported");
  if (ConfigFields* in = fields.in(); in != nullptr && in->text("mamba_hidden_act", "silu") != "silu")
    in->fail("mamba_hidden_act", "is not silu, the activation that state spaces of this family are supported with");
  fields.skip({"chunk_size", "expand", "mamba_proj_bias", "mamba_ssm_cache_dtype", "rescale_prenorm_residual",
               "residual_in_fp32", "time_step_floor", "time_step_max", "time_step_min", "time_step_rank",
               "use_mamba_kernels"});
  fields.skip({"attention_head_dim", "hidden_dropout", "moe_shared_expert_overlap", "mtp_hybrid_override_pattern",
               "mtp_layers_block_type", "num_logits_to_keep", "num_nextn_predict_layers", "rms_norm_eps", "norm_eps",
               "rope_theta", "partial_rotary_factor"});
}

constexpr NamedMixer kGraniteKinds[] = {{"mamba", Mixer::state_space},
                                        {"attention", Mixer::attention},
                                        {"linear_attention", Mixer::state_space},
                                        {"full_attention", Mixer::attention}};

// Without experts, the network is what is the shared expert otherwise.
void granite_networks(FamilyFields& fields, TransformerConfig& c) {
  Experts& routed = c.architecture.experts;
  ConfigFields* in = fields.in();
  const bool has_experts =
      in != nullptr ? !in->has("num_local_experts") || in->not_negative("num_local_experts", 8) > 0 : routed.count > 0;
  if (has_experts) {
    experts(fields, c, {.count_key = "num_local_experts", .count = 8, .per_token = 2});
    routed.rules.scores = RouterScores::softmax_of_chosen;
    routed.shared_gate = false;
    fields.size("shared_intermediate_size", routed.shared_width, 1024);
    return;
  }
  fields.size("shared_intermediate_size", c.d_ff, 1024);
  fields.write("num_local_experts", 0);
  fields.write("num_experts_per_tok", 0);
  fields.skip({"num_experts_per_tok", "output_router_logits", "router_aux_loss_coef"});
}

void granitemoehybrid(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {});
  Architecture& a = c.architecture;
  attention_bias(fields, a, false);
  granite_multipliers(fields, a);
  require_silu(fields, c);
  layer_mixers(fields, c, "layer_types", kGraniteKinds,
               std::vector<Mixer>(static_cast<std::size_t>(c.layers), Mixer::state_space));
  state_space(fields, c, {});
  a.state.output_bias = a.state.input_bias;
  a.state.gate_norm = GateNorm::norm_of_product;
  step_limits(fields, a.state);
  granite_networks(fields, c);
  fields.write("position_embedding_type", a.unrotated_layers.empty() ? Json("rope") : Json("nope"));
  ConfigFields* in = fields.in();
  if (in == nullptr) {
    const std::int64_t width = a.state.heads * a.state.value_size;
    fields.write("mamba_expand", width / c.d_model);
    return;
  }
  const std::string positions = in->text("position_embedding_type", "nope");
  if (positions != "rope" && positions != "nope")
    in->fail("position_embedding_type", "is '{}'; there are rope and nope", positions.substr(0, 64));
  if (positions == "nope") a.unrotated_layers = {true};
  if (in->text("normalization_function", "rmsnorm") != "rmsnorm")
    in->fail("normalization_function", "is not rmsnorm, the norm that this family has");
  in->skip("init_method");
}

// State spaces alone, whose sizes stand for those of heads and networks.
void mamba2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(
      c,
      {.sizes = usual::mamba2, .theta = std::nullopt, .heads_key = "num_heads", .epsilon_key = "layer_norm_epsilon"});
  Architecture& a = c.architecture;
  a.max_context = 0;
  a.mixers = {Mixer::state_space};
  a.feed_forward_layers = {false};
  StateMixer& s = a.state;
  s.gate_norm = GateNorm::norm_of_product;
  s.norm_epsilon = a.norm_epsilon;
  s.heads = c.heads;
  s.value_size = c.head_size();
  c.d_ff = s.heads * s.value_size;
  fields.size("state_size", s.key_size, 128);
  fields.size("n_groups", s.key_heads, 8);
  fields.size("conv_kernel", s.kernel, 4);
  fields.flag("use_conv_bias", s.convolution_bias, true);
  fields.flag("use_bias", s.input_bias, false);
  s.output_bias = s.input_bias;
  require_silu(fields, c);
  step_limits(fields, s);
  fields.write("expand", c.d_ff / c.d_model);
  if (ConfigFields* in = fields.in(); in != nullptr && in->size("expand", 2) * c.d_model != c.d_ff)
    in->fail("expand", "times hidden_size is not the width of {} heads of {}", s.heads, s.value_size);
  fields.skip({"chunk_size", "rms_norm", "rescale_prenorm_residual", "residual_in_fp32", "time_step_floor",
               "time_step_max", "time_step_min", "time_step_rank", "layer_types"});
}

// A list of factors, as many as `values` has.
void factors(FamilyFields& fields, std::string_view key, std::span<double> values) {
  if (ConfigFields* in = fields.in()) {
    const Json* list = in->find(key);
    if (list == nullptr) return;
    if (!list->is_array() || list->size() != values.size())
      in->fail(key, "must be a list of {} factors", values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!(*list)[i].is_number() || (*list)[i].get<double>() == 0)
        in->fail(key, "has the entry {}; factors are numbers other than 0", dump_json((*list)[i]));
      values[i] = (*list)[i].get<double>();
    }
  }
  fields.write(key, Json(std::vector<double>(values.begin(), values.end())));
}

void falcon_h1(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::falcon_h1});
  Architecture& a = c.architecture;
  StateMixer& s = a.state;
  PartScales& scales = a.part_scales;
  attention_bias(fields, a, false);
  fields.flag("mlp_bias", a.feed_forward_bias, false);
  require_silu(fields, c);
  a.mixers = {Mixer::attention_and_state_space};
  state_space(fields, c, {.width = 1024});
  fields.write("mamba_d_ssm", s.heads * s.value_size);
  fields.flag("projectors_bias", s.output_bias, false);
  bool has_norm = s.gate_norm != GateNorm::none, is_before = s.gate_norm != GateNorm::norm_of_product;
  fields.flag("mamba_rms_norm", has_norm, false);
  fields.flag("mamba_norm_before_gate", is_before, true);
  s.gate_norm = !has_norm ? GateNorm::none : is_before ? GateNorm::product_of_norm : GateNorm::norm_of_product;
  s.norm_groups = has_norm ? s.key_heads : 1;
  step_limits(fields, s);
  fields.positive("embedding_multiplier", a.embedding_scale, 1);
  fields.positive("lm_head_multiplier", a.logit_scale, 1);
  fields.positive("key_multiplier", scales.keys, 1);
  fields.positive("attention_in_multiplier", scales.attention_input, 1);
  fields.positive("attention_out_multiplier", scales.attention_output, 1);
  fields.positive("ssm_in_multiplier", s.input_scale, 1);
  fields.positive("ssm_out_multiplier", s.output_scale, 1);
  factors(fields, "ssm_multipliers", s.part_scales);
  std::array<double, 2> network = {scales.gate, scales.feed_forward};
  factors(fields, "mlp_multipliers", network);
  scales.gate = network[0];
  scales.feed_forward = network[1];
  fields.skip({"num_logits_to_keep", "attn_layer_indices", "mlp_expansion_factor", "layer_types", "layers_block_type"});
}

}  // namespace

extern const Family family_nemotron_h{"nemotron_h",
                                      "NemotronHForCausalLM",
                                      nemotron_h,
                                      {.model = "backbone.",
                                       .embedding = "embeddings",
                                       .final_norm = "norm_f",
                                       .attention = "mixer",
                                       .feed_forward = "mixer",
                                       .experts = "mixer",
                                       .shared_expert = "shared_experts",
                                       .norms = {"norm", "", "norm", ""},
                                       .mixer = "mixer"},
                                      kNotModelled};
extern const Family family_mamba2{"mamba2",
                                  "Mamba2ForCausalLM",
                                  mamba2,
                                  {.model = "backbone.",
                                   .embedding = "embeddings",
                                   .final_norm = "norm_f",
                                   .norms = {"norm", "", "norm", ""},
                                   .mixer = "mixer"},
                                  kNotModelled};
extern const Family family_granitemoehybrid{"granitemoehybrid",
                                            "GraniteMoeHybridForCausalLM",
                                            granitemoehybrid,
                                            {.feed_forward = "shared_mlp",
                                             .gate_up = "input_linear",
                                             .down = "output_linear",
                                             .experts = "block_sparse_moe",
                                             .router = "router.layer",
                                             .shared_expert = "shared_mlp",
                                             .shared_expert_in_layer = true,
                                             .stored_experts = StoredExperts::halves,
                                             .expert_gate_up = "input_linear.weight",
                                             .experts_down = "output_linear.weight",
                                             .mixer = "mamba"},
                                            kNotModelled};
extern const Family family_falcon_h1{"falcon_h1",
                                     "FalconH1ForCausalLM",
                                     falcon_h1,
                                     {.final_norm = "final_layernorm",
                                      .feed_forward = "feed_forward",
                                      .norms = {"input_layernorm", "", "pre_ff_layernorm", ""},
                                      .mixer = "mamba"},
                                     kNotModelled};

}  // namespace ridgepoint
