// The kernels written by hand, where a generator does not fit: embedding and its gradient, rope, cross-entropy and its
// gradient, attention and its gradient, AdamW. One list of all tables of variants (variant.h), and the choice of a row.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// Every variant of every op, an op's preferred ones first.
std::span<const KernelVariant> kernel_variants();
// The first that applies to the node on such a card; null where none does.
const KernelVariant* find_variant(const CardFacts& card, const Graph& graph, const Node& node);

// Whether the node runs as a hand-written kernel on such a card.
bool has_hand_written(const CardFacts& card, const Graph& graph, const Node& node);
// How such a node wants its operand to lie.
OperandLayout hand_written_layout(const CardFacts& card, const Graph& graph, const Node& node, int index);
// Throws Error when the node has none.
std::unique_ptr<Kernel> make_hand_written_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
