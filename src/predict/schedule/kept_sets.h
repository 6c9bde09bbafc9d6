// Chooses sets of a block's tensors that are worth keeping, by a model of their bytes and of the time to compute the
// other tensors again. The model knows nothing of fusion; the search (choose_schedule.h) plans the sets.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "passes/memory/block_tensors.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

using KeptSet = std::vector<bool>;  // by tensor

// A set of kept tensors of a block, with its cost.
struct KeptSetCost {
  double bytes = 0;
  // As recompute_cost_by_block() counts it: bytes, or operations at `flops_per_byte`, whichever takes longer.
  double recomputation = 0;
};
KeptSetCost cost_of(const Graph& graph, const BlockTensors& tensors, const KeptSet& kept, double flops_per_byte);

// The tensors that backward computes again.
KeptSet computed_again(const BlockTensors& tensors, const KeptSet& kept);

// The indices of at most `most` sets, those nearest to the convex hull of bytes and recomputation first: if some blocks
// have one set and others another, the run lies on the line between the two. Equal sets appear once.
std::vector<std::size_t> nearest_to_hull(std::span<const KeptSetCost> costs, std::size_t most);

// At most `most` sets in that order. If the block has at most kMostChoices tensors, every set is considered; otherwise
// each of the smallest tensors has the choice of the tensor before it.
std::vector<KeptSet> sets_worth_keeping(const Graph& graph, const BlockTensors& tensors, double flops_per_byte,
                                        std::size_t most);

inline constexpr std::size_t kMostChoices = 12;

}  // namespace ridgepoint
