// What activation checkpointing computes again: the work of the phase recompute of a compiled graph.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/rule.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// Operations and bytes of one run. Throws Error on overflow of 64 bits.
Cost recomputation(const Graph& graph);

// By block: the time of its recomputation, in bytes. An op takes as long as its bytes, or as its operations at
// `flops_per_byte`, the rate of arithmetic over that of memory, whichever is longer.
std::vector<double> recompute_cost_by_block(const Graph& graph, std::span<const std::string> blocks,
                                            double flops_per_byte);

}  // namespace ridgepoint
