#include "interchange/huggingface/families/experts.h"

#include <algorithm>

#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kMaxExperts = 65536;
constexpr double kAuxiliaryLoss = 0.001;

// The published files of each family have one of two names; `transformers` 5 writes the other one for some.
std::int64_t read_count(ConfigFields& fields, const ExpertDefaults& defaults) {
  const std::string_view other = defaults.count_key == "num_experts" ? "num_local_experts" : "num_experts";
  if (!fields.has(other)) return fields.size(defaults.count_key, defaults.count, kMaxExperts);
  const std::int64_t count = fields.size(other, defaults.count, kMaxExperts);
  if (fields.size(defaults.count_key, count, kMaxExperts) != count)
    fields.fail(other, "is {}, and {} is another number", count, defaults.count_key);
  return count;
}

// Experts are in the layers whose number, counted from 1, is a multiple of decoder_sparse_step, but for
// mlp_only_layers.
void read_qwen_layers(ConfigFields& fields, TransformerConfig& config, const QwenExperts& absent) {
  config.architecture.experts.normalised = fields.flag("norm_topk_prob", absent.normalised);
  const std::int64_t step = fields.size("decoder_sparse_step", 1);
  std::vector<bool> layers = layers_where(config.layers, [&](std::int64_t layer) { return (layer + 1) % step == 0; });
  if (const auto dense = read_layer_numbers(fields, "mlp_only_layers", config.layers, "without experts")) {
    for (std::size_t layer = 0; layer < layers.size(); ++layer) layers[layer] = layers[layer] && !(*dense)[layer];
  }
  if (std::ranges::find(layers, true) == layers.end())
    fields.fail("mlp_only_layers", "and decoder_sparse_step leave no layer with experts");
  set_expert_layers(config, layers, fields.size("intermediate_size", absent.dense_width));
}

void write_qwen_experts(const TransformerConfig& config, FamilyFields& fields) {
  const Architecture& a = config.architecture;
  if (a.experts.dense_width > 0) fields.write("intermediate_size", a.experts.dense_width);
  fields.write("norm_topk_prob", a.experts.normalised);
  fields.write("decoder_sparse_step", 1);
  fields.write_layer_numbers("mlp_only_layers", config, [&](std::int64_t layer) { return !a.has_experts(layer); });
}

}  // namespace

void check_experts_per_token(FamilyFields& fields, const Experts& experts, std::string_view key) {
  if (ConfigFields* in = fields.in(); in != nullptr && experts.per_token > experts.count)
    in->fail(key, "is {}, but a layer has {} experts", experts.per_token, experts.count);
}

void qwen_experts(FamilyFields& fields, TransformerConfig& config, const ExpertDefaults& defaults,
                  const QwenExperts& absent) {
  experts(fields, config, defaults);
  if (ConfigFields* in = fields.in()) return read_qwen_layers(*in, config, absent);
  write_qwen_experts(config, fields);
}

void set_expert_layers(TransformerConfig& config, const std::vector<bool>& layers, std::int64_t dense_width) {
  config.architecture.experts.layers = pattern_of(layers, true);
  // Of layers that are not there nothing is kept.
  config.architecture.experts.dense_width = config.architecture.experts.layers.empty() ? 0 : dense_width;
}

std::optional<std::vector<bool>> read_sparse_layers(ConfigFields& fields, const TransformerConfig& config) {
  constexpr std::string_view kKey = "mlp_layer_types";
  const Json* list = fields.find(kKey);
  if (list == nullptr) return std::nullopt;
  std::vector<bool> layers;
  for (const Json& entry : entries_of_layers(fields, kKey, *list, config.layers)) {
    if (entry != "sparse" && entry != "dense")
      fields.fail(kKey, "has the entry {}; entries are \"sparse\" or \"dense\"", printable(dump_json(entry)));
    layers.push_back(entry == "sparse");
  }
  if (std::ranges::find(layers, true) == layers.end()) fields.fail(kKey, "names no layer with experts");
  return layers;
}

void expert_layers_from(FamilyFields& fields, TransformerConfig& config, std::int64_t absent_first,
                        std::int64_t absent_width, std::string_view key) {
  const Experts& experts = config.architecture.experts;
  if (ConfigFields* in = fields.in()) {
    const auto first = static_cast<std::int64_t>(in->not_negative(key, static_cast<double>(absent_first)));
    if (first >= config.layers)
      in->fail(key, "is {}, but there are {} layers: none would have experts", first, config.layers);
    const std::int64_t width = in->size("intermediate_size", absent_width);
    const auto named = read_sparse_layers(*in, config);
    set_expert_layers(config,
                      named ? *named : layers_where(config.layers, [&](std::int64_t layer) { return layer >= first; }),
                      width);
  }
  std::int64_t first = 0;
  while (first < config.layers && !config.architecture.has_experts(first)) ++first;
  fields.write(key, first);
  fields.write("intermediate_size", experts.dense_width > 0 ? experts.dense_width : config.d_ff);
}

void deepseek_experts(FamilyFields& fields, TransformerConfig& config, const DeepSeekExperts& absent) {
  Experts& experts = config.architecture.experts;
  ExpertRules& rules = experts.rules;
  fields.size("n_routed_experts", experts.count, absent.count);
  fields.size("num_experts_per_tok", experts.per_token, absent.per_token);
  fields.flag("norm_topk_prob", experts.normalised, absent.normalised);
  fields.positive("routed_scaling_factor", rules.scale, absent.scale);
  experts.shared_gate = false;
  check_experts_per_token(fields, experts);
  if (ConfigFields* in = fields.in()) {
    rules.groups = in->optional_size("n_group", absent.groups).value_or(1);
    rules.groups_per_token = in->optional_size("topk_group", absent.of_groups).value_or(rules.groups);
    const auto shared =
        static_cast<std::int64_t>(in->not_negative("n_shared_experts", static_cast<double>(absent.shared)));
    experts.shared_width = shared * config.d_ff;
    if (const double every = in->positive("moe_layer_freq", 1); every != 1)
      in->fail("moe_layer_freq", "is {:g}; transformers has experts in every layer from the first on", every);
  }
  fields.write("n_group", rules.groups);
  fields.write("topk_group", rules.groups_per_token);
  fields.write("n_shared_experts", experts.shared_width / std::max<std::int64_t>(config.d_ff, 1));
  expert_layers_from(fields, config, absent.first, absent.dense_width);
  skip_auxiliary_loss(fields);
}

void skip_auxiliary_loss(FamilyFields& fields) {
  fields.skip({"aux_loss_alpha", "seq_aux", "router_aux_loss_coef", "output_router_logits", "ep_size",
               "num_nextn_predict_layers", "pretraining_tp"});
  fields.write("output_router_logits", false);
}

void experts(FamilyFields& fields, TransformerConfig& config, const ExpertDefaults& defaults) {
  Experts& experts = config.architecture.experts;
  if (ConfigFields* in = fields.in()) {
    experts.count = read_count(*in, defaults);
    experts.per_token = in->size(defaults.per_token_key, defaults.per_token, kMaxExperts);
    check_experts_per_token(fields, experts, defaults.per_token_key);
    const double factor = in->not_negative("router_aux_loss_coef", kAuxiliaryLoss);
    const bool has_loss = in->flag("output_router_logits", false);
    experts.auxiliary_loss = has_loss ? factor : 0;
    if (!has_loss && factor > 0)
      in->note("the loss has no load-balancing part: transformers adds it only with output_router_logits=true");
  }
  fields.write(defaults.count_key, experts.count);
  fields.write(defaults.per_token_key, experts.per_token);
  fields.write("output_router_logits", experts.auxiliary_loss > 0);
  fields.write("router_aux_loss_coef", experts.auxiliary_loss);
}

}  // namespace ridgepoint
