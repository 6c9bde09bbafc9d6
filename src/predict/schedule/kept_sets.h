// The sets of a block's tensors that are worth keeping: by a model of their bytes and of the time of what backward
// computes again without them. The model knows nothing of fusion; the search (choose_schedule.h) plans the sets.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "passes/memory/block_tensors.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

using KeptSet = std::vector<bool>;  // by tensor

// What backward keeps of a block, and what it computes again, with a set.
struct KeptSetCost {
  double bytes = 0;
  // As recompute_cost_by_block() counts it: bytes, or operations at `flops_per_byte`, whichever takes longer.
  double recomputation = 0;
};
KeptSetCost cost_of(const Graph& graph, const BlockTensors& tensors, const KeptSet& kept, double flops_per_byte);

// The tensors that backward computes again.
KeptSet computed_again(const BlockTensors& tensors, const KeptSet& kept);

// The indices of at most `most` sets, the nearest first to the convex hull of fewest bytes and least to compute again:
// a mixture of two sets in many blocks lies on the line between them. Of equal sets there is one.
std::vector<std::size_t> nearest_to_hull(std::span<const KeptSetCost> costs, std::size_t most);

// At most `most` sets in that order. Of blocks with up to kMostChoices tensors, every set is considered; of others, the
// smallest tensors have the choice of the one before.
std::vector<KeptSet> sets_worth_keeping(const Graph& graph, const BlockTensors& tensors, double flops_per_byte,
                                        std::size_t most);

inline constexpr std::size_t kMostChoices = 12;

}  // namespace ridgepoint
