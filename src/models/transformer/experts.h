// A mixture of experts in place of a feed-forward network, as Mixtral and the Qwen models have it: a router chooses
// some experts for each token, each expert is a SwiGLU network, and a token gets the weighted sum of the results of its
// experts (Shazeer et al. 2017, arXiv:1701.06538; Jiang et al. 2024, arXiv:2401.04088).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// What the weights of experts are made of. softmax: over all experts; softmax_of_chosen: over the logits of the chosen
// ones; sigmoid: of each logit by itself; sparse_mixer: two experts, each with its softmax over those near its logit,
// which is what SparseMixer (Liu et al. 2023, arXiv:2310.00811) evaluates to: it samples in training; sqrt_softplus:
// the root of softplus of each logit (DeepSeek V4).
enum class RouterScores : std::uint8_t { softmax, softmax_of_chosen, sigmoid, sparse_mixer, sqrt_softplus };
enum class Activation : std::uint8_t;

// How the experts of a token are chosen and computed, apart from sizes.
struct ExpertRules {
  RouterScores scores = RouterScores::softmax;
  bool has_correction = false;  // a number of each expert, no parameter, is added to the scores that choose, only there
  std::int64_t groups = 1;      // of as many experts each; a token has experts of its best `groups_per_token` groups
  std::int64_t groups_per_token = 1;
  bool group_has_best_two = true;  // a group's score is the sum of its two best scores; otherwise its best
  double scale = 1;                // of the weights
  bool weighs_inputs = false;      // the weights are factors of what experts read, not of their results (Llama 4)
  bool has_router_bias = false;
  double jitter = 0;               // of sparse_mixer: near is what lies below the best by twice this share at most
  double router_epsilon = 0;       // of the RMS norm of what the router reads, with a weight over sqrt(D); 0: no norm
  bool has_expert_scales = false;  // a parameter of each expert is a factor of its weights
  bool has_biases = false;         // of the layers of routed experts
  double limit = 0;  // SwiGLU in limits: gate up to it, the other factor 1 + x with x in [-limit, limit]; 0: none
  double slope = 1;  // in the sigmoid of that SwiGLU
  bool limit_adds_one = true;  // otherwise that other factor is x
  bool limits_all = false;     // of the shared expert, too, and of the networks of layers without experts
  bool squared_relu = false;   // an expert is w2(relu(w1 x)^2), without a gate, and so is the shared one (Nemotron-H)
  double divisor_term = 0;     // is added to the sum that weights are divided by
  // Experts read and write this many elements, which a layer before and one behind all of them project from and to the
  // model's; the router and the shared expert read the model's (Nemotron 3 Super). 0: there are no such layers.
  std::int64_t latent_width = 0;

  bool operator==(const ExpertRules&) const = default;
};

struct ExpertSizes {
  std::int64_t experts = 8;       // E
  std::int64_t chosen = 2;        // k: the experts of a token
  std::int64_t d_ff = 0;          // F: the inner width of an expert
  bool normalise_weights = true;  // unless they are softmax_of_chosen: the weights of a token are divided by their sum
  std::int64_t shared_d_ff = 0;   // the inner width of an expert that every token has; 0: there is none
  bool shared_gate = true;        // it stands behind a gate
  Activation activation = {};     // silu
  bool third_factor = false;      // of an expert, beside those of w1 and w3: w4 x, with experts.w4 [E,F,D]
  ExpertRules rules = {};
};

// How a layer has routed its tokens, for the loss that balances the experts.
struct ExpertRouting {
  Value probabilities;  // [T,E], the softmax of the router's logits
  Value counts;         // fp32 [E]: the number of times that each expert was chosen; without a derivative
};

// SwiGLU in the limits of the rules, of products with w1 and w3.
Value limited_swiglu(Graph& graph, Value gate, Value up, const ExpertRules& rules);

// The end of the name of a correction, a constant of the graph that a workload writes.
inline constexpr std::string_view kCorrection = "router.correction";

// The end of the name of a table [V,k] of the experts of each token of the vocabulary, a constant of the graph in fp32.
inline constexpr std::string_view kExpertTable = "router.table";

// x [T,D] -> [T,D]; the router reads `routed_by` [T,D], where it is given. Parameters under the current scope:
// router.weight [E,D], with its norm router.scale [D], and where experts have factors router.expert_scale [E];
// experts.w1 and experts.w3 [E,F,D] and experts.w2 [E,D,F], of which an expert computes w2(act(w1 x) * (w3 x)), unless
// `squared_relu`; with a latent width L, D is L in these three, and there are latent_in.weight [L,D] and
// latent_out.weight [D,L]; with biases also experts.b1, b3 [E,F] and b2 [E,D]; with a shared expert also
// shared_expert.{w1,w3}.weight [S,D] and shared_expert.w2.weight [D,S], and with its gate shared_expert_gate.weight
// [1,D], whose product with x gives the factor of its result through a sigmoid. A correction is the constant
// router.correction [E]. The sums over the experts of a token have a fixed order. All T k rows that the experts compute
// are counted and stored, wherever they are routed. Appends to `routings` unless it is null. Throws Error (usage)
// unless 1 <= k <= E, the widths are positive, and the groups divide the experts and hold k. `choices` int64 [T,k],
// where they are given, are the experts of each token, which then has no correction: the router weighs them alone.
Value build_experts(Graph& graph, Value x, const ExpertSizes& sizes, std::vector<ExpertRouting>* routings = nullptr,
                    Value routed_by = {}, Value choices = {});

// The auxiliary loss of Switch Transformers (Fedus et al. 2021, arXiv:2101.03961) over the tokens of all layers, as
// load_balancing_loss_func() of `transformers` has it: E times the sum over experts of their share of choices (a token
// has k) and their mean probability. An fp32 scalar of the phase loss, without a coefficient. Throws Error (usage)
// without routings.
Value load_balancing_loss(Graph& graph, std::span<const ExpertRouting> routings);

}  // namespace ridgepoint
