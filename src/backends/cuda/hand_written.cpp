#include "backends/cuda/hand_written.h"

#include <array>
#include <vector>

#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

const KernelVariant& variant_of(const CardFacts& card, const KernelSpec& spec) {
  for (const KernelVariant& variant : kernel_variants()) {
    if (variant.is_candidate(card, spec.graph, spec.node) &&
        (variant.supports_layouts == nullptr || variant.supports_layouts(spec)))
      return variant;
  }
  throw_error(ErrorKind::unsupported, "there is no hand-written CUDA kernel for '{}'; call has_hand_written() first",
              ridgepoint::name(spec.node.op));
}

}  // namespace

bool KernelVariant::supports(const CardFacts& card, const Graph& graph, const Node& node) const {
  const auto index = static_cast<std::size_t>(operand);
  return node.op == op && index < node.inputs.size() && graph.type(node.inputs[index]).dtype == dtype &&
         supports(card.capability) && static_cast<std::size_t>(tiling.shared_bytes) <= card.shared_bytes_per_block &&
         (supports_node == nullptr || supports_node(*this, graph, node));
}

bool KernelVariant::is_candidate(const CardFacts& card, const Graph& graph, const Node& node) const {
  return supports(card, graph, node) && (is_preferred == nullptr || is_preferred(*this, card, graph, node));
}

std::span<const KernelVariant> kernel_variants() {
  static const std::vector<KernelVariant> all = [] {
    std::vector<KernelVariant> gathered;
    for (const std::span<const KernelVariant> table :
         {dequantise_variants(), embedding_variants(), rope_variants(), attention_variants(),
          linear_attention_variants(), cross_entropy_variants(), experts_variants(), quantise_variants(),
          adamw_variants(), swiglu_variants(), cross_entropy_of_product_variants(), rope_product_variants(),
          residual_variants(), sum_of_squares_variants()}) {
      gathered.insert(gathered.end(), table.begin(), table.end());
    }
    return gathered;
  }();
  return all;
}

const KernelVariant* find_variant(const CardFacts& card, const Graph& graph, const Node& node) {
  static const auto by_op = [] {
    std::array<std::vector<const KernelVariant*>, kOpCount> variants;
    for (const KernelVariant& variant : kernel_variants())
      variants[static_cast<std::size_t>(variant.op)].push_back(&variant);
    return variants;
  }();
  for (const KernelVariant* variant : by_op[static_cast<std::size_t>(node.op)]) {
    if (variant->is_candidate(card, graph, node)) return variant;
  }
  return nullptr;
}

bool has_hand_written(const CardFacts& card, const Graph& graph, const Node& node) {
  return find_variant(card, graph, node) != nullptr;
}

KernelOutline outline_hand_written(const CardFacts& card, const KernelSpec& spec) {
  const KernelVariant& variant = variant_of(card, spec);
  const std::size_t bytes = variant.workspace_bytes == nullptr ? 0 : variant.workspace_bytes(variant, card, spec);
  return {variant.entry, bytes, variant.rate};
}

std::unique_ptr<Kernel> make_hand_written_kernel(CudaContext& context, const KernelSpec& spec) {
  const KernelVariant& variant = variant_of(context.card(), spec);
  return variant.make(context, spec, variant);
}

}  // namespace ridgepoint::cuda
