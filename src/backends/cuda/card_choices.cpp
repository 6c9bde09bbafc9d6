#include "backends/cuda/card_choices.h"

#include <fmt/format.h>

#include "backends/cuda/generator/kernel.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/matmul.h"
#include "ops/rule.h"
#include "ops/rules/optimizer/optimizer.h"

namespace ridgepoint {
namespace cuda {
DeviceFacts CardChoices::facts() const {
  DeviceFacts facts;
  facts.compute_capability = fmt::format("{}.{}", card_.capability.major, card_.capability.minor);
  facts.multiprocessors = card_.multiprocessors;
  if (card_.l2_bytes > 0) facts.l2_cache_bytes = static_cast<std::int64_t>(card_.l2_bytes);
  facts.memory_bytes = static_cast<std::int64_t>(card_.memory_bytes);
  return facts;
}

bool CardChoices::has_kernel(const Graph& graph, const Node& node) const {
  if (is_library_product(card_, graph, node) || has_hand_written(card_, graph, node)) return true;
  return !updates_several_tensors(node) && fits_generated(graph, node);
}

OperandLayout CardChoices::operand_layout(const Graph& graph, const Node& node, int index) const {
  if (op_class(node.op) == OpClass::contraction)  // one launch computes a whole batch
    return index < 2 ? OperandLayout::batched_matrix : OperandLayout::dense;
  if (is_library_product(card_, graph, node)) return OperandLayout::dense;
  const KernelVariant* const variant = find_variant(card_, graph, node);
  if (variant == nullptr) return OperandLayout::any;
  return variant->layout == nullptr ? OperandLayout::dense : variant->layout(graph, node, index);
}

bool CardChoices::writes_strided(const Graph& graph, const Node& node) const {
  if (!launches(node.op) || is_library_product(card_, graph, node)) return false;
  const KernelVariant* const variant = find_variant(card_, graph, node);
  return variant == nullptr || variant->strided_results;
}

bool CardChoices::pads_rows(const Graph& graph, const Node& node) const {
  if (node.op == Op::matmul) return true;
  const KernelVariant* const variant = find_variant(card_, graph, node);
  return variant == nullptr ? writes_strided(graph, node) : variant->padded_rows || variant->strided_results;
}

bool CardChoices::runs_update_beside(const Graph& graph, const Node& node) const {
  return node.op == Op::adamw && has_hand_written(card_, graph, node);
}

KernelOutline CardChoices::outline(const KernelSpec& spec) {
  if (is_library_product(card_, spec.graph, spec.node)) return outline_matmul(card_, spec);
  if (has_hand_written(card_, spec.graph, spec.node)) return outline_hand_written(card_, spec);
  return outline_generated(card_, spec);
}

}  // namespace cuda

std::shared_ptr<KernelChoices> make_described_card(const CardDescription& description) {
  cuda::CardFacts card;
  card.name = description.name;
  card.capability = {description.compute_capability / 10, description.compute_capability % 10};
  card.multiprocessors = description.multiprocessors;
  card.memory_bytes = static_cast<std::size_t>(description.memory_bytes);
  card.shared_bytes_per_block = cuda::shared_bytes_per_block(card.capability);
  return std::make_shared<cuda::CardChoices>(std::move(card));
}

}  // namespace ridgepoint
