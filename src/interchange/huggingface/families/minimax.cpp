// The text model of MiniMax M3, as transformers has it: an indexer chooses blocks of keys in some layers, and SwiGLU
// has limits in experts, in the shared one and in layers without experts.
#include <algorithm>
#include <optional>
#include <vector>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

constexpr std::string_view kBlockLayer = "minimax_m3_sparse", kPlainLayer = "full_attention";

// Which layers choose blocks: those of `layer_types`, or of a list of 0 and 1 in the object of older files.
std::vector<bool> read_sparse_attention(ConfigFields& in, ConfigFields* object, std::int64_t layers) {
  if (const Json* list = in.find("layer_types")) {
    std::vector<bool> sparse;
    for (const Json& type : entries_of_layers(in, "layer_types", *list, layers)) {
      if (type != kBlockLayer && type != kPlainLayer)
        in.fail("layer_types", "has a layer of kind {}; {} and {} are supported", printable(dump_json(type)),
                kPlainLayer, kBlockLayer);
      sparse.push_back(type == kBlockLayer);
    }
    return sparse;
  }
  const auto flags = object != nullptr ? read_layer_flags(*object, "sparse_attention_freq", layers) : std::nullopt;
  return flags.value_or(std::vector<bool>(static_cast<std::size_t>(layers), false));
}

void read_blocks(ConfigFields& in, TransformerConfig& c) {
  Architecture& a = c.architecture;
  std::optional<ConfigFields> object = in.object("sparse_attention_config");
  const auto size = [&](std::string_view key, std::string_view old, std::int64_t absent) {
    return in.has(key) || !object ? in.size(key, absent) : object->size(old, absent);
  };
  const std::vector<bool> layers = read_sparse_attention(in, object ? &*object : nullptr, c.layers);
  KeySelection s = {.heads = size("index_n_heads", "sparse_num_index_heads", 4),
                    .head_size = size("index_head_dim", "sparse_index_dim", 128),
                    .rotated = rotated_width(c, a.rotary),
                    .kept = size("index_topk_blocks", "sparse_topk_blocks", 16),
                    .block = size("index_block_size", "sparse_block_size", 128),
                    .local = size("index_local_blocks", "sparse_local_block", 1),
                    .layers = pattern_of(layers, true)};
  if (std::ranges::find(layers, true) == layers.end()) return;
  if (s.head_size < s.rotated)
    in.fail("index_head_dim", "is {}, less than the {} elements that are rotated", s.head_size, s.rotated);
  a.selection = std::move(s);
}

void write_blocks(const TransformerConfig& c, FamilyFields& fields) {
  const KeySelection& s = c.architecture.selection;
  fields.write_layers("layer_types", c,
                      [&](std::int64_t layer) { return s.has_indexer(layer) ? kBlockLayer : kPlainLayer; });
  if (s.heads == 0) return;
  fields.write("index_n_heads", s.heads);
  fields.write("index_head_dim", s.head_size);
  fields.write("index_topk_blocks", s.kept);
  fields.write("index_block_size", s.block);
  fields.write("index_local_blocks", s.local);
}

void layers_with_experts(FamilyFields& fields, TransformerConfig& c) {
  const Architecture& a = c.architecture;
  if (ConfigFields* in = fields.in()) {
    auto layers = read_sparse_layers(*in, c);
    if (!layers) layers = read_layer_flags(*in, "moe_layer_freq", c.layers);
    if (layers && std::ranges::find(*layers, true) == layers->end())
      in->fail("moe_layer_freq", "names no layer with experts");
    set_expert_layers(c, layers.value_or(std::vector<bool>(static_cast<std::size_t>(c.layers), true)),
                      in->size("dense_intermediate_size", 12288));
    in->skip("moe_layer_freq");
  }
  fields.write_layers("mlp_layer_types", c,
                      [&](std::int64_t layer) { return a.has_experts(layer) ? "sparse" : "dense"; });
  if (a.experts.dense_width > 0) fields.write("dense_intermediate_size", a.experts.dense_width);
}

void minimax_m3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.vocab = 200064,
                     .hidden = 6144,
                     .intermediate = 3072,
                     .layers = 60,
                     .heads = 64,
                     .kv_heads = 4,
                     .head_dim = 128,
                     .max_positions = 524288,
                     .activation_key = {},
                     .theta = 5e6,
                     .rotary_share = RotaryShare::may_be_partial});
  Architecture& a = c.architecture;
  a.norm_adds_one = true;
  a.projection_norm = ProjectionNorm::per_head;
  rotated_part(fields, c, std::min<std::int64_t>(64, c.head_size()));
  experts(fields, c, {.count_key = "num_local_experts", .count = 128, .per_token = 4});
  Experts& experts = a.experts;
  experts.normalised = true;
  experts.shared_gate = false;
  ExpertRules& rules = experts.rules;
  rules.scores = RouterScores::sigmoid;
  rules.has_correction = rules.limits_all = true;
  fields.positive("routed_scaling_factor", rules.scale, 2);
  fields.positive("swiglu_limit", rules.limit, 7);
  fields.positive("swiglu_alpha", rules.slope, 1.702);
  fields.size("shared_intermediate_size", experts.shared_width, 3072);
  layers_with_experts(fields, c);
  ConfigFields* in = fields.in();
  if (in == nullptr) return write_blocks(c, fields);
  read_blocks(*in, c);
  if (const std::string kind = in->text("hidden_act", "silu"); kind != "silu" && kind != "swigluoai")
    in->fail("hidden_act", "is neither silu nor swigluoai; this family has SwiGLU in limits alone");
  in->refuse("router_jitter_noise", "random noise at the router is not supported");
  // Of prediction of several tokens, and of fields that say what the family has always.
  fields.skip({"num_mtp_modules", "use_mtp", "mtp_transformer_layers", "num_nextn_predict_layers", "scoring_func",
               "use_routing_bias", "use_qk_norm", "qk_norm_type", "use_gemma_norm", "head_dim"});
}

}  // namespace

extern const Family family_minimax_m3_vl_text{
    "minimax_m3_vl_text",
    "MiniMaxM3VLForCausalLM",
    minimax_m3,
    {.gate_up = "gate_up_proj", .shared_expert = "shared_experts", .stored_experts = StoredExperts::halves},
    kNotModelled};

}  // namespace ridgepoint
