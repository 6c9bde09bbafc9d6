// Elementwise ops, reductions and composites of both as one kernel, run by the tile interpreter.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ridgepoint::cpu {

// Whether make_tile_kernel() takes the node. Layouts do not matter for the decompositions in src/ops, whose
// reductions are over the last axis, nor for single ops.
bool fits_tile(const Graph& graph, const Node& node);

// Throws Error (unsupported) for a node that does not fit: another kind of op, fp64, indices past 2^24.
std::unique_ptr<Kernel> make_tile_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
