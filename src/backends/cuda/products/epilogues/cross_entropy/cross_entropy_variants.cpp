// The variants of products that end in cross-entropy.
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/cross_entropy/cross_entropy_plan.h"
#include "backends/cuda/products/epilogues/ended_product.h"

namespace ridgepoint::cuda {
namespace {

// Whether the node is cross-entropy of a product whose rows are whole vectors.
bool has_cross_entropy(const KernelVariant& /*variant*/, const Graph& /*graph*/, const Node& node) {
  if (node.body == nullptr || node.inputs.size() != 3) return false;
  const std::optional<CrossEntropyNode> found = cross_entropy_of(*node.body);
  constexpr std::int64_t kVector = 8;
  return found && found->tokens > 0 && found->inner > 0 && found->inner % kVector == 0 && found->vocabulary > 0 &&
         found->vocabulary % kVector == 0;
}

OperandLayout cross_entropy_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index < 2 ? OperandLayout::batched_matrix : OperandLayout::dense;
}

std::unique_ptr<EndPlan> cross_entropy_plan(const KernelSpec& spec) {
  const std::optional<CrossEntropyPlan> plan = CrossEntropyPlan::of(*cross_entropy_of(*spec.node.body), spec);
  return plan ? std::make_unique<CrossEntropyPlan>(*plan) : nullptr;
}

constexpr KernelVariant cross_entropy_of_product(DType dtype, const char* entry) {
  return {.op = Op::fused,
          .dtype = dtype,
          .least_capability = {9, 0},
          .is_for_that_capability_alone = true,
          .accepts = has_cross_entropy,
          .tiling = {.rows = 128, .columns = 128, .threads = LowMatmulTiling::kThreads},
          .image = "cross_entropy_matmul_wgmma",
          .entry = entry,
          .layout = cross_entropy_layout,
          .workspace_bytes = ended_product_workspace<cross_entropy_plan>,
          .rate = kElementwiseEpilogueRate,
          .make = make_ended_product<cross_entropy_plan>};
}

constexpr KernelVariant kCrossEntropyOfProductVariants[] = {
    cross_entropy_of_product(DType::bf16, "fused_cross_entropy_128x128_2x1_bf16"),
    cross_entropy_of_product(DType::fp16, "fused_cross_entropy_128x128_2x1_fp16"),
};

}  // namespace

std::span<const KernelVariant> cross_entropy_of_product_variants() { return kCrossEntropyOfProductVariants; }

}  // namespace ridgepoint::cuda
