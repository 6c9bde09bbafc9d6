// OpenMoE (Xue et al. 2024, arXiv:2402.01739), with code of its own in the class of Llama's fields: every few layers
// have experts, and a network behind them. The activation "swiglu" halves a gate of twice the width and gates one half
// by the other, so that a network has three factors. Scores are not divided by the root of the head size.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

// Older files name some fields otherwise.
std::string_view known_as(const ConfigFields& in, std::string_view key, std::string_view old) {
  return !in.has(key) && in.has(old) ? old : key;
}

void read_kinds(ConfigFields& in, TransformerConfig& c) {
  if (const std::string kind = in.text("hidden_act", "swiglu"); kind != "swiglu")
    in.fail("hidden_act", "is not swiglu; networks of this family have no other activation");
  if (const std::string_view key = known_as(in, "mlp_gated", "gated"); !in.flag(key, true))
    in.fail(key, "is false; networks of this family have gates");
  for (const char* key : {"router_noisy_policy", "noisy_policy"})
    in.refuse(key, "random noise at the router is not supported");
  Experts& experts = c.architecture.experts;
  experts.count = in.size("num_experts", 32);
  const std::string_view chosen = known_as(in, "router_topk", "topk");
  experts.per_token = in.size(chosen, 2);
  if (experts.per_token > experts.count)
    in.fail(chosen, "is {}, but a layer has {} experts", experts.per_token, experts.count);
  const std::int64_t interval = in.size("moe_layer_interval", 6);
  if (interval > c.layers)
    in.fail("moe_layer_interval", "is {}, but there are {} layers: none would have experts", interval, c.layers);
  experts.layers =
      pattern_of(layers_where(c.layers, [&](std::int64_t layer) { return (layer + 1) % interval == 0; }), true);
  experts.dense_width = c.d_ff;
  in.note(
      "experts take every token that chooses them, and the loss is the cross-entropy alone: the model's own code "
      "limits "
      "the tokens of an expert, and adds losses of the router and of the logits");
}

// Of the loss, of the tokens that experts take, and of kernels.
void skip_training_of(FamilyFields& fields) {
  fields.skip({"attention_bias", "layer_norm_epsilon", "dropout_rate", "label_smoothing", "z_loss_factor",
               "router_aux_loss_factor", "router_z_loss_factor"});
  fields.skip({"router_capacity_factor_train", "router_capacity_factor_eval", "router_min_capacity", "router_drop_tks",
               "capacity_factor_train", "capacity_factor_eval", "min_capacity", "drop_tks"});
  fields.skip({"expert_parallel", "enable_load_balance", "load_balance_beam_width", "load_balance_group_swap_factor",
               "load_balance_tolerance", "enable_kernel", "enable_comm_overlap", "enable_hierarchical_alltoall",
               "pretraining_tp"});
}

void openmoe(FamilyFields& fields, TransformerConfig& c) {
  ConfigFields* in = fields.in();
  skip_training_of(fields);
  fields.decoder(c,
                 {.sizes = usual::openmoe,
                  .activation_key = {},
                  .epsilon_key = in != nullptr ? known_as(*in, "rms_norm_eps", "layer_norm_epsilon") : "rms_norm_eps"});
  Architecture& a = c.architecture;
  a.third_factor = true;
  a.query_scale = 1;
  a.experts.before_dense = true;
  if (in != nullptr) return read_kinds(*in, c);
  fields.write("hidden_act", "swiglu");
  fields.write("mlp_gated", true);
  fields.write("num_experts", a.experts.count);
  fields.write("router_topk", a.experts.per_token);
  std::int64_t interval = 1;
  while (interval < c.layers && !a.has_experts(interval - 1)) ++interval;
  fields.write("moe_layer_interval", interval);
}

}  // namespace

extern const Family family_openmoe{"openmoe",
                                   "OpenMoeForCausalLM",
                                   openmoe,
                                   {.expert_gate = "experts.wi_gate",
                                    .expert_up = "experts.wi_up",
                                    .router_tensor = "gate_weight",
                                    .stored_experts = StoredExperts::transposed,
                                    .experts_down = "experts.wo"},
                                   kNotModelled};

}  // namespace ridgepoint
