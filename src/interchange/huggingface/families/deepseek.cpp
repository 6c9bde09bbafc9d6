// DeepSeek's mixtures: the first one with attention as usual, and those with multi-head latent attention, V2 and V3,
// whose field names others have taken (Kimi K2). MiniCPM 3 has that attention without experts.
#include <fmt/format.h>

#include <cmath>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

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
    if (value > most) in.fail(key, fmt::format("is {}, more than {}, {}", value, most, what));
  };
  above("kv_lora_rank", latent.kv_rank, c.heads * (plain + latent.value_size), "the width of all keys and values");
  above("q_lora_rank", latent.q_rank, c.heads * c.head_size(), "the width of all queries");
  above("v_head_dim", latent.value_size, c.head_size(), "the size of a head of queries");
  if (latent.rotated % 2 != 0) in.fail("qk_rope_head_dim", fmt::format("is {}; it must be even", latent.rotated));
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
  fields.write("q_lora_rank", latent.q_rank > 0 ? Json(latent.q_rank) : Json(nullptr));
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
  fields.decoder(c, {.vocab = 102400,
                     .intermediate = 1407,
                     .layers = 30,
                     .max_positions = 2048,
                     .intermediate_key = "moe_intermediate_size"});
  attention_bias(fields, c.architecture, false);
  deepseek_experts(fields, c, {.dense_width = 11008, .shared = 2, .first = 0, .normalised = false});
  fields.skip({"scoring_func"});
}

void deepseek_v2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, decoder_of_latent({.intermediate = 1407, .intermediate_key = "moe_intermediate_size"}));
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

void deepseek_v3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, decoder_of_latent({.vocab = 129280,
                                       .hidden = 7168,
                                       .intermediate = 2048,
                                       .layers = 61,
                                       .heads = 128,
                                       .max_positions = 4096,
                                       .intermediate_key = "moe_intermediate_size"}));
  latent_attention(fields, c, {});
  deepseek_experts(
      fields, c,
      {.dense_width = 18432, .count = 256, .per_token = 8, .groups = 8, .of_groups = 4, .first = 3, .scale = 2.5});
  Architecture& a = c.architecture;
  a.experts.rules.scores = RouterScores::sigmoid;
  a.experts.rules.has_correction = true;
  fields.skip({"scoring_func", "topk_method"});
  stretch_scores(fields, a);
  if (ConfigFields* in = fields.in(); in != nullptr && !in->flag("rope_interleave", true))
    in->fail("rope_interleave", "is false; only elements side by side are turned in this family");
}

// Its own code, with the multipliers of MiniCPM.
void minicpm3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, decoder_of_latent({.vocab = 73448, .max_positions = 2048, .tied = true}));
  latent_attention(fields, c, {.kv_rank = 256, .q_rank = 768, .plain = 64, .rotated = 32, .value = 64});
  minicpm_multipliers(fields, c);
}

}  // namespace

extern const Family family_deepseek{"deepseek", "DeepseekForCausalLM", read_by<deepseek>, write_by<deepseek>,
                                    kNames,     kNotModelled};
extern const Family family_deepseek_v2{
    "deepseek_v2", "DeepseekV2ForCausalLM", read_by<deepseek_v2>, write_by<deepseek_v2>, kAdjacent, kNotModelled};
extern const Family family_deepseek_v3{
    "deepseek_v3", "DeepseekV3ForCausalLM", read_by<deepseek_v3>, write_by<deepseek_v3>, kAdjacent, kNotModelled};
extern const Family family_minicpm3{"minicpm3", "MiniCPM3ForCausalLM", read_by<minicpm3>, write_by<minicpm3>,
                                    {},         kNotModelled};

}  // namespace ridgepoint
