// The kernels written by hand, where a generator does not fit: embedding and its gradient, rope, cross-entropy and its
// gradient, attention and its gradient, AdamW.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// Whether the node runs as a hand-written kernel on such a card.
bool has_hand_written(const CardFacts& card, const Graph& graph, const Node& node);
// How such a node wants its operand to lie.
OperandLayout hand_written_layout(const Graph& graph, const Node& node, int index);
// Throws Error when the node has none.
std::unique_ptr<Kernel> make_hand_written_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
