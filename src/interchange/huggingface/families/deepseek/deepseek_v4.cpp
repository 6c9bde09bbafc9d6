// DeepSeek V4, as transformers has it: several streams, attention to a window and to compressed keys, experts that a
// table of tokens says in the first layers.
#include <algorithm>
#include <array>
#include <vector>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

struct NamedCompression {
  Compression kind;
  std::string_view type;
  std::int64_t ratio;  // of older files
};
constexpr std::array<NamedCompression, 3> kCompressions = {
    {{Compression::none, "sliding_attention", 0},
     {Compression::overlapping, "compressed_sparse_attention", 4},
     {Compression::heavy, "heavily_compressed_attention", 128}}};

// Without a list: two layers of the heavy kind, then both in turn.
std::vector<Compression> read_compressions(ConfigFields& in, std::int64_t layers) {
  const std::string_view key = in.has("layer_types") ? "layer_types" : "compress_ratios";
  std::vector<Compression> kinds;
  const Json* list = in.find(key);
  if (list == nullptr) {
    for (std::int64_t layer = 0; layer < layers; ++layer)
      kinds.push_back(layer < 2 || layer % 2 == 0 ? Compression::heavy : Compression::overlapping);
    return kinds;
  }
  for (const Json& entry : entries_of_layers(in, key, *list, layers)) {
    const auto* found = std::ranges::find_if(
        kCompressions, [&](const NamedCompression& one) { return entry == one.type || entry == one.ratio; });
    if (found == kCompressions.end())
      in.fail(key,
              "has the entry {}; entries are 0, 4 and 128, or sliding_attention, "
              "compressed_sparse_attention and heavily_compressed_attention",
              printable(dump_json(entry)));
    kinds.push_back(found->kind);
  }
  return kinds;
}

void compressed_attention(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  CompressedAttention& made_of = a.compressed;
  fields.size("q_lora_rank", made_of.q_rank, 1024);
  fields.size("qk_rope_head_dim", made_of.rotated, 64);
  fields.size("o_groups", made_of.groups, 8);
  fields.size("o_lora_rank", made_of.group_rank, 1024);
  fields.size("index_n_heads", made_of.index_heads, 64);
  fields.size("index_head_dim", made_of.index_size, 128);
  fields.size("index_topk", made_of.index_kept, 512);
  fields.size("sliding_window", a.window, 128);
  ConfigFields* in = fields.in();
  if (in == nullptr) {
    fields.write_layers("layer_types", c, [&](std::int64_t layer) {
      return kCompressions[static_cast<std::size_t>(made_of.compression(layer))].type;
    });
    fields.write("compress_rates",
                 {{kCompressions[1].type, made_of.overlapping_rate}, {kCompressions[2].type, made_of.heavy_rate}});
    return;
  }
  const std::vector<Compression> kinds = read_compressions(*in, c.layers);
  std::vector<bool> plain;
  for (const Compression kind : kinds) plain.push_back(kind == Compression::none);
  made_of.layers = shortest_period(kinds);
  a.window_layers = pattern_of(plain, true);
  if (std::optional<ConfigFields> rates = in->object("compress_rates")) {
    made_of.overlapping_rate = rates->size(kCompressions[1].type, 4);
    made_of.heavy_rate = rates->size(kCompressions[2].type, 128);
  }
  const auto check_rotated = [&](std::string_view key, std::int64_t size) {
    if (made_of.rotated % 2 != 0 || made_of.rotated > size)
      in->fail("qk_rope_head_dim", "is {}; it must be an even part of {}, {}", made_of.rotated, key, size);
  };
  check_rotated("head_dim", c.head_size());
  check_rotated("index_head_dim", made_of.index_size);
  if (c.heads % made_of.groups != 0)
    in->fail("o_groups", "is {} and does not divide the {} heads", made_of.groups, c.heads);
  if (c.kv_heads() != 1)
    in->fail("num_key_value_heads", "is not 1; one head of this family is the keys of all queries");
}

// Layers without compressed keys turn by one set of parameters, the others by another, whose factor of cosines and
// sines is 1 unless the file says it.
void rotaries(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  a.separate_rotary = true;
  if (fields.in() == nullptr) {
    fields.write("rope_parameters",
                 {{"main", rotary_parameters(a.window_rotary)}, {"compress", rotary_parameters(a.rotary)}});
    return;
  }
  ConfigFields& in = *fields.in();
  const double theta = in.positive("rope_theta", 10000), compressed_theta = in.positive("compress_rope_theta", 160000);
  a.window_rotary.theta = theta;
  a.rotary.theta = compressed_theta;
  std::optional<ConfigFields> object = rotary_object(in);
  const bool is_by_kind = object && object->has("main") && object->has("compress");
  if (is_by_kind) {
    std::optional<ConfigFields> plain = object->object("main"), compressed = object->object("compress");
    a.window_rotary = read_rotary_object(*plain, c, theta);
    object = std::move(compressed);
  }
  if (object) {
    const bool has_factor = object->has("attention_factor");
    a.rotary = read_rotary_object(*object, c, compressed_theta);
    if (!is_by_kind) a.rotary.theta = compressed_theta;
    if (!has_factor) a.rotary.amplitude = 1;
  }
  a.rotary.share = a.window_rotary.share =
      static_cast<double>(a.compressed.rotated) / static_cast<double>(c.head_size());
}

// The first layers, by a number or as a list.
std::int64_t read_hashed_layers(ConfigFields& in, std::int64_t layers) {
  const Json* list = in.find("mlp_layer_types");
  const auto count = static_cast<std::int64_t>(in.not_negative("num_hash_layers", 3));
  if (list == nullptr) return std::min(count, layers);
  std::int64_t hashed = 0, place = 0;
  for (const Json& entry : entries_of_layers(in, "mlp_layer_types", *list, layers)) {
    if ((entry != "hash_moe" && entry != "moe") || (entry == "hash_moe" && hashed != place))
      in.fail("mlp_layer_types",
              "has the entry {} for layer {}; the first layers are hash_moe, and the "
              "others moe",
              printable(dump_json(entry)), place);
    hashed += entry == "hash_moe" ? 1 : 0;
    ++place;
  }
  return hashed;
}

constexpr std::array<std::pair<std::string_view, RouterScores>, 3> kScores = {
    {{"sqrtsoftplus", RouterScores::sqrt_softplus},
     {"softmax", RouterScores::softmax},
     {"sigmoid", RouterScores::sigmoid}}};

void mixtures(FamilyFields& fields, TransformerConfig& c) {
  Experts& experts = c.architecture.experts;
  ExpertRules& rules = experts.rules;
  fields.size("n_routed_experts", experts.count, 256);
  fields.size("num_experts_per_tok", experts.per_token, 6);
  fields.positive("routed_scaling_factor", rules.scale, 1.5);
  fields.positive("swiglu_limit", rules.limit, 10);
  check_experts_per_token(fields, experts);
  experts.normalised = rules.has_correction = rules.limits_all = true;
  experts.shared_gate = rules.limit_adds_one = false;
  experts.shared_width = c.d_ff;
  skip_auxiliary_loss(fields);
  fields.write("n_shared_experts", 1);
  if (ConfigFields* in = fields.in()) {
    experts.hashed_layers = read_hashed_layers(*in, c.layers);
    const std::string scores = in->text("scoring_func", kScores[0].first);
    const auto* found = std::ranges::find_if(kScores, [&](const auto& one) { return one.first == scores; });
    if (found == kScores.end()) in->fail("scoring_func", "is neither sqrtsoftplus nor softmax nor sigmoid");
    rules.scores = found->second;
    if (in->size("n_shared_experts", 1) != 1)
      in->fail("n_shared_experts", "is not 1; transformers has one in this family");
    if (!in->flag("norm_topk_prob", true))
      in->fail("norm_topk_prob", "is false; transformers divides the weights always");
    in->refuse("router_jitter_noise", "random noise at the router is not supported");
    return;
  }
  fields.write("scoring_func", std::ranges::find(kScores, rules.scores, &decltype(kScores)::value_type::second)->first);
  fields.write_layers("mlp_layer_types", c,
                      [&](std::int64_t layer) { return layer < experts.hashed_layers ? "hash_moe" : "moe"; });
}

void deepseek_v4(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::deepseek_v4, .intermediate_key = "moe_intermediate_size", .theta = std::nullopt});
  compressed_attention(fields, c);
  rotaries(fields, c);
  mixtures(fields, c);
  HyperConnections& connections = c.architecture.connections;
  fields.size("hc_mult", connections.streams, 4);
  fields.size("hc_sinkhorn_iters", connections.iterations, 20);
  fields.positive("hc_eps", connections.epsilon, 1e-6);
  fields.refuse("attention_bias", "biases of attention are not supported in this family");
  fields.refuse("mlp_bias", "biases of feed-forward layers are not supported in this family");
  // Of files that say what the family has always, and of number types.
  fields.skip({"topk_method", "expert_dtype", "partial_rotary_factor"});
}

}  // namespace

extern const Family family_deepseek_v4{"deepseek_v4",
                                       "DeepseekV4ForCausalLM",
                                       deepseek_v4,
                                       {.model = "",
                                        .embedding = "embed",
                                        .head = "head",
                                        .attention = "attn",
                                        .feed_forward = "ffn",
                                        .gate = "w1",
                                        .up = "w3",
                                        .down = "w2",
                                        .experts = "ffn",
                                        .shared_expert = "shared_experts",
                                        .correction = "gate.bias",
                                        .norms = {"attn_norm", "", "ffn_norm", ""},
                                        .adjacent_pairs = true},
                                       kNotModelled};

}  // namespace ridgepoint
