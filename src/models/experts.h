// A mixture of experts in place of a feed-forward network, as Mixtral and the Qwen models have it: a router chooses
// some experts for each token, each expert is a SwiGLU network, and a token gets the weighted sum of the results of its
// experts (Shazeer et al. 2017, arXiv:1701.06538; Jiang et al. 2024, arXiv:2401.04088).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

struct ExpertSizes {
  std::int64_t experts = 8;       // E
  std::int64_t chosen = 2;        // k: the experts of a token
  std::int64_t d_ff = 0;          // F: the inner width of an expert
  bool softmax_first = true;      // over all experts, and then top-k; otherwise over the chosen ones
  bool normalise_weights = true;  // with softmax_first: the weights of a token are divided by their sum
  std::int64_t shared_d_ff = 0;   // the inner width of an expert that every token has, behind a gate; 0: there is none
};

// How a layer has routed its tokens, for the loss that balances the experts.
struct ExpertRouting {
  Value probabilities;  // [T,E], the softmax of the router's logits
  Value counts;         // fp32 [E]: the number of times that each expert was chosen; without a derivative
};

// x [T,D] -> [T,D]. Parameters under the current scope: router.weight [E,D]; experts.w1 and experts.w3 [E,F,D] and
// experts.w2 [E,D,F], of which an expert computes w2(silu(w1 x) * (w3 x)); with a shared expert also
// shared_expert.{w1,w3}.weight [S,D], shared_expert.w2.weight [D,S] and shared_expert_gate.weight [1,D], whose product
// with x gives the factor of its result through a sigmoid. The sums over the experts of a token have a fixed order. All
// T k rows that the experts compute are counted and stored, wherever they are routed. Appends to `routings` unless it
// is null. Throws Error (usage) unless 1 <= k <= E and the widths are positive.
Value build_experts(Graph& graph, Value x, const ExpertSizes& sizes, std::vector<ExpertRouting>* routings = nullptr);

// The auxiliary loss of Switch Transformers (Fedus et al. 2021, arXiv:2101.03961) over the tokens of all layers, as
// load_balancing_loss_func() of `transformers` has it: E times the sum over experts of their share of choices (a token
// has k) and their mean probability. An fp32 scalar of the phase loss, without a coefficient. Throws Error (usage)
// without routings.
Value load_balancing_loss(Graph& graph, std::span<const ExpertRouting> routings);

}  // namespace ridgepoint
