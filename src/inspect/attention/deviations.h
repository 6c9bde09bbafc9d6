// Finds the fault in a wrong result of attention. Attention is computed again in fp64 with one step of the algorithm
// done in a wrong way that programs often have. If the tensor then agrees, this step is named.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/transformer/attention.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ir/tensor.h"
#include "run/session/steps/compare_tensors.h"

namespace ridgepoint {

// Tensors of one attention call by name, in any floating type. q, do and o have the elements of [B,H,S,D] in order, k
// and v those of [B,N,K,D], and lse those of [B,H,S]. dq, dk and dv are like q, k and v.
using AttentionTensors = std::map<std::string, HostTensor>;

struct Deviation {
  std::vector<std::string> names;  // of the tensors that agree
  std::string text;                // "attention whose scores are not scaled by 1/sqrt(64)"
  bool is_of_all = true;           // false: one head of keys was looked at, because all would take too long
};

// The multiplications for the scores of one key head, over all query heads that read it.
std::int64_t products_of_head(const AttentionProblem& problem);
// With more, the search would take minutes.
inline constexpr std::int64_t kMostProductsOfHead = std::int64_t{1} << 26;

// `found` has tensors that differ from attention, with the tolerance of each. A tensor is explained at most once, by
// the deviation that explains the most tensors. Empty for calls with more multiplications than the limit. `stop_point`
// is called repeatedly.
std::vector<Deviation> deviations_of(const AttentionProblem& problem, const AttentionTensors& inputs,
                                     const AttentionTensors& found, const Tolerance& tolerance,
                                     const StopPoint& stop_point = {});

}  // namespace ridgepoint
