// The hand-written kernels: embedding, rope, cross-entropy, mixture of experts, attention and linear attention with
// their gradients, products with epilogues, codes of 8 bits, sums of squares, and AdamW. This is the list of all tables
// of variants (variant.h), and the choice of a variant.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// The tables of the ops; kernels/<op>/<op>.cpp says what its kernels take.
std::span<const KernelVariant> adamw_variants();
std::span<const KernelVariant> attention_variants();
std::span<const KernelVariant> cross_entropy_variants();
std::span<const KernelVariant> cross_entropy_of_product_variants();
std::span<const KernelVariant> dequantise_variants();
std::span<const KernelVariant> embedding_variants();
std::span<const KernelVariant> experts_variants();
std::span<const KernelVariant> linear_attention_variants();
std::span<const KernelVariant> quantise_variants();
std::span<const KernelVariant> residual_variants();
std::span<const KernelVariant> rope_variants();
std::span<const KernelVariant> rope_product_variants();
std::span<const KernelVariant> sum_of_squares_variants();
std::span<const KernelVariant> swiglu_variants();

// All variants; for each op the preferred ones come first.
std::span<const KernelVariant> kernel_variants();
// The first candidate for the node on such a GPU; null if there is none.
const KernelVariant* find_variant(const CardFacts& card, const Graph& graph, const Node& node);

// Whether the node runs as a hand-written kernel on such a GPU.
bool has_hand_written(const CardFacts& card, const Graph& graph, const Node& node);
// The name, the workspace and the rate of the kernel of such a node. Throws Error if it has none.
KernelOutline outline_hand_written(const CardFacts& card, const KernelSpec& spec);
// Throws Error if the node has no hand-written kernel.
std::unique_ptr<Kernel> make_hand_written_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
