// One kernel for elementwise ops, reductions, and composites of both; the tile interpreter runs it.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace ridgepoint::cpu {

// Whether make_tile_kernel() takes the node. The answer does not depend on layouts for single ops, nor for the
// decompositions in src/ops, which reduce over the last axis.
bool fits_tile(const Graph& graph, const Node& node);

// Throws Error (unsupported) for another class of op, fp64, or indices beyond 2^24.
std::unique_ptr<Kernel> make_tile_kernel(const KernelSpec& spec);

}  // namespace ridgepoint::cpu
