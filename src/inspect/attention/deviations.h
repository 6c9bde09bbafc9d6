// Names the fault of a tensor that is not the attention it should be. Attention is computed again in fp64 with one step
// of the algorithm done in another way, as a faulty program may do it. Where the tensor then agrees, that step is
// named.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/transformer/attention.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ir/tensor.h"
#include "run/session/steps/compare_tensors.h"

namespace ridgepoint {

// Tensors of one call of attention by name, in any floating type: q and do have the elements of [B,H,S,D] in their
// order, k and v of [B,N,K,D]; o those of q, lse of [B,H,S], and dq, dk and dv of q, k and v.
using AttentionTensors = std::map<std::string, HostTensor>;

struct Deviation {
  std::vector<std::string> names;  // of the tensors that agree
  std::string text;                // "attention whose scores are not scaled by 1/sqrt(64)"
  bool is_of_all = true;           // false: one head of keys was looked at, because all would take too long
};

// Numbers that are multiplied for the scores of a head of keys, by all heads that read it.
std::int64_t products_of_head(const AttentionProblem& problem);
// With more, the search would take minutes.
inline constexpr std::int64_t kMostProductsOfHead = std::int64_t{1} << 26;

// `found` has tensors that differ from attention, with the tolerance of each. Each is explained at most once, by the
// deviation that explains the most of them. Empty for calls with more products than the most. `stop_point` may be
// called again and again.
std::vector<Deviation> deviations_of(const AttentionProblem& problem, const AttentionTensors& inputs,
                                     const AttentionTensors& found, const Tolerance& tolerance,
                                     const StopPoint& stop_point = {});

}  // namespace ridgepoint
