// DeepSeek's mixtures: the first one with attention as usual, and those with multi-head latent attention, V2 and V3,
// whose field names others have taken (Kimi K2). In V3.2 and GLM 5 an indexer chooses the keys of each query. MiniCPM 3
// has latent attention without experts.
#include <algorithm>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

constexpr WeightNames kNames = {.shared_expert = "shared_experts"};
constexpr WeightNames kAdjacent = {.shared_expert = "shared_experts", .adjacent_pairs = true};

struct LatentDefaults {
  std::int64_t kv_rank = 512;
  std::optional<std::int64_t> q_rank = 1536;
  std::int64_t plain = 128, rotated = 64, value = 128;  // of a head
};

void check_latent(const ConfigFields& in, const TransformerConfig& c, std::int64_t plain) {
  const LatentAttention& latent = c.architecture.latent;
  const auto above = [&](std::string_view key, std::int64_t value, std::int64_t most, std::string_view what) {
    if (value > most) in.fail(key, "is {}, more than {}, {}", value, most, what);
  };
  above("kv_lora_rank", latent.kv_rank, c.heads * (plain + latent.value_size), "the width of all keys and values");
  above("q_lora_rank", latent.q_rank, c.heads * c.head_size(), "the width of all queries");
  above("v_head_dim", latent.value_size, c.head_size(), "the size of a head of queries");
  if (latent.rotated % 2 != 0) in.fail("qk_rope_head_dim", "is {}; it must be even", latent.rotated);
}

// After the decoder, whose fields of rotary embedding it reads, too.
void latent_attention(FamilyFields& fields, TransformerConfig& c, const LatentDefaults& absent) {
  Architecture& a = c.architecture;
  LatentAttention& latent = a.latent;
  std::int64_t plain = c.head_size() - latent.rotated;
  fields.size("kv_lora_rank", latent.kv_rank, absent.kv_rank);
  fields.size("qk_nope_head_dim", plain, absent.plain);
  fields.size("qk_rope_head_dim", latent.rotated, absent.rotated);
  fields.size("v_head_dim", latent.value_size, absent.value);
  attention_bias(fields, a, false);
  fields.write_or_null("q_lora_rank", latent.q_rank);
  fields.write("head_dim", latent.rotated);
  if (ConfigFields* in = fields.in()) {
    latent.q_rank = in->optional_size("q_lora_rank", absent.q_rank).value_or(0);
    a.kv_heads = 0;
    a.head_size = plain + latent.rotated;
    check_latent(*in, c, plain);
    in->skip("head_dim");
    const double share = static_cast<double>(latent.rotated) / static_cast<double>(a.head_size);
    a.rotary = read_rotary(*in, c, {.rotary_share = RotaryShare::own, .share = share});
    return;
  }
  Json rotary;
  Rotary whole = a.rotary;
  whole.share = 1;
  write_rotary(whole, rotary);
  for (auto& [key, value] : rotary.items()) fields.write(key, value);
}

// Scores grow with the factor of yarn, in deepseek_v2 and deepseek_v3.
void stretch_scores(FamilyFields& fields, Architecture& a) {
  if (a.rotary.scaling == RotaryScaling::none) return;
  ConfigFields* in = fields.in();
  if (in == nullptr) return fields.write_into("rope_scaling", "mscale_all_dim", a.latent.stretch);
  if (std::optional<ConfigFields> object = rotary_object(*in))
    a.latent.stretch = object->not_negative("mscale_all_dim", 0);
}

DecoderDefaults decoder_of_latent(DecoderDefaults defaults) {
  defaults.theta = std::nullopt;
  return defaults;
}

void deepseek(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::deepseek, .intermediate_key = "moe_intermediate_size"});
  attention_bias(fields, c.architecture, false);
  deepseek_experts(fields, c, {.dense_width = 11008, .shared = 2, .first = 0, .normalised = false});
  fields.skip({"scoring_func"});
}

void deepseek_v2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, decoder_of_latent({.sizes = usual::deepseek_v2, .intermediate_key = "moe_intermediate_size"}));
  latent_attention(fields, c, {});
  deepseek_experts(fields, c, {.dense_width = 11008, .per_token = 8, .shared = 2, .first = 0, .normalised = false});
  ExpertRules& rules = c.architecture.experts.rules;
  rules.group_has_best_two = false;
  bool has_groups = rules.groups > 1;
  if (ConfigFields* in = fields.in()) {
    const std::string method = in->text("topk_method", "greedy");
    if (method != "greedy" && method != "group_limited_greedy")
      in->fail("topk_method", "is neither greedy nor group_limited_greedy");
    has_groups = method != "greedy";
    if (!has_groups) rules.groups = rules.groups_per_token = 1;
    in->refuse("norm_topk_prob", "transformers does not divide the weights of this family by their sum");
  }
  stretch_scores(fields, c.architecture);
  fields.write("topk_method", has_groups ? "group_limited_greedy" : "greedy");
  fields.refuse("mlp_bias", "biases of feed-forward layers are not supported in this family");
  fields.skip({"scoring_func"});
}

// What V3 and those after it share.
struct Version3 {
  DecoderDefaults decoder = {.sizes = usual::deepseek_v3, .intermediate_key = "moe_intermediate_size"};
  LatentDefaults latent = {};
  DeepSeekExperts experts = {
      .dense_width = 18432, .count = 256, .per_token = 8, .groups = 8, .of_groups = 4, .first = 3, .scale = 2.5};
};

void version_3(FamilyFields& fields, TransformerConfig& c, const Version3& absent) {
  fields.decoder(c, decoder_of_latent(absent.decoder));
  latent_attention(fields, c, absent.latent);
  deepseek_experts(fields, c, absent.experts);
  Architecture& a = c.architecture;
  a.experts.rules.scores = RouterScores::sigmoid;
  a.experts.rules.has_correction = true;
  fields.skip({"scoring_func", "topk_method"});
  stretch_scores(fields, a);
}

void indexer(FamilyFields& fields, TransformerConfig& c, std::int64_t absent_heads) {
  KeySelection& s = c.architecture.selection;
  fields.size("index_n_heads", s.heads, absent_heads);
  fields.size("index_head_dim", s.head_size, 128);
  fields.size("index_topk", s.kept, 2048);
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  const LatentAttention& latent = c.architecture.latent;
  s.rotated = latent.rotated;
  if (s.head_size < s.rotated)
    in->fail("index_head_dim", "is {}, less than the {} elements that are rotated", s.head_size, s.rotated);
  if (latent.q_rank == 0) in->fail("q_lora_rank", "is null; the indexer reads the low rank of queries");
  // All layers are of one kind, and the code of the family has one order of rotated elements.
  fields.skip({"layer_types", "rope_interleave", "indexer_rope_interleave"});
}

void deepseek_v32(FamilyFields& fields, TransformerConfig& c) {
  Version3 absent;
  absent.decoder.sizes.max_positions = 163840;
  version_3(fields, c, absent);
  indexer(fields, c, 64);
}

// Layers without an indexer take the choice of the one before them (arXiv:2603.12201).
void read_shared_indexers(ConfigFields& in, TransformerConfig& c) {
  const auto fail = [&](std::string_view key, const Json& entry) {
    in.fail(key, "has the entry {}; entries are full or shared", printable(dump_json(entry)));
  };
  std::vector<bool> own;
  const std::string_view key = in.has("indexer_types") ? "indexer_types" : "index_topk_pattern";
  const auto every = in.size("index_topk_freq", 1);
  const auto offset = static_cast<std::int64_t>(in.not_negative("index_skip_topk_offset", 2));
  if (const Json* list = in.find(key)) {
    Json entries = *list;
    if (entries.is_string()) {  // "FSSF"
      entries = Json::array();
      for (const char letter : list->get<std::string>())
        entries.push_back(letter == 'F' ? "full" : letter == 'S' ? "shared" : std::string(1, letter));
    }
    for (const Json& entry : entries_of_layers(in, key, entries, c.layers)) {
      if (entry != "full" && entry != "shared") fail(key, entry);
      own.push_back(entry == "full");
    }
  } else {
    own = layers_where(c.layers,
                       [&](std::int64_t layer) { return std::max<std::int64_t>(layer - offset + 1, 0) % every == 0; });
  }
  if (!own[0]) in.fail(key, "begins with a shared layer; the first layer has no choice before it to take");
  KeySelection& s = c.architecture.selection;
  s.layers = pattern_of(own, true);
  s.others_share = !s.layers.empty();
}

void glm_moe_dsa(FamilyFields& fields, TransformerConfig& c) {
  version_3(fields, c,
            {.decoder = {.sizes = usual::glm_moe_dsa, .intermediate_key = "moe_intermediate_size"},
             .latent = {.q_rank = 2048, .plain = 192, .value = 256},
             .experts = {.dense_width = 12288, .count = 256, .per_token = 8, .first = 3, .scale = 2.5}});
  indexer(fields, c, 32);
  if (ConfigFields* in = fields.in()) return read_shared_indexers(*in, c);
  fields.write_layers("indexer_types", c, [&](std::int64_t layer) {
    return c.architecture.selection.has_indexer(layer) ? "full" : "shared";
  });
}

void deepseek_v3(FamilyFields& fields, TransformerConfig& c) {
  version_3(fields, c, {});
  if (ConfigFields* in = fields.in(); in != nullptr && !in->flag("rope_interleave", true))
    in->fail("rope_interleave", "is false; only elements side by side are turned in this family");
}

// Its own code, with the multipliers of MiniCPM.
void minicpm3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, decoder_of_latent({.sizes = usual::minicpm3}));
  latent_attention(fields, c, {.kv_rank = 256, .q_rank = 768, .plain = 64, .rotated = 32, .value = 64});
  minicpm_multipliers(fields, c);
}

}  // namespace

extern const Family family_deepseek{"deepseek", "DeepseekForCausalLM", deepseek, kNames, kNotModelled};
extern const Family family_deepseek_v2{"deepseek_v2", "DeepseekV2ForCausalLM", deepseek_v2, kAdjacent, kNotModelled};
extern const Family family_deepseek_v3{"deepseek_v3", "DeepseekV3ForCausalLM", deepseek_v3, kAdjacent, kNotModelled};
extern const Family family_deepseek_v32{"deepseek_v32", "DeepseekV32ForCausalLM", deepseek_v32, kAdjacent,
                                        kNotModelled};
extern const Family family_glm_moe_dsa{
    "glm_moe_dsa",
    "GlmMoeDsaForCausalLM",
    glm_moe_dsa,
    {.shared_expert = "shared_experts", .adjacent_pairs = true, .indexer_adjacent_pairs = true},
    kNotModelled};
extern const Family family_minicpm3{"minicpm3", "MiniCPM3ForCausalLM", minicpm3, {}, kNotModelled};

}  // namespace ridgepoint
