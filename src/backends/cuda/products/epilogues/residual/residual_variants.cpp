// The variants of products that end in a residual sum and its norm, or in the derivative of both.
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/ended_product.h"
#include "backends/cuda/products/epilogues/residual/residual_plan.h"

namespace ridgepoint::cuda {
namespace {

// A norm waits for whole rows; its derivative reads them twice, and sums columns too, in launches of their own.
constexpr EpilogueRate kNormRate{
    .product = kHalfProductRate, .memory_share = kRowRate.share, .reads = 0.8, .writes = 0.8};
constexpr EpilogueRate kBackwardRate{.product = kHalfProductRate,
                                     .memory_share = kRowRate.share,
                                     .reads = 1.5,
                                     .writes = 1.5,
                                     .fixed_seconds = 5e-6};

template <bool kIsBackward>
bool has_residual(const KernelVariant& /*variant*/, const Graph& /*graph*/, const Node& node) {
  if (node.body == nullptr || node.inputs.size() != (kIsBackward ? 6U : 4U)) return false;
  const std::optional<ResidualNode> residual = residual_of(*node.body);
  if (!residual || residual->is_backward != kIsBackward) return false;
  constexpr std::int64_t kVector = 8;
  return residual->tokens <= ResidualPlan::kMostTokens && residual->columns <= ResidualPlan::kMostColumns &&
         residual->columns % kVector == 0 && residual->inner > 0 && residual->inner % kVector == 0;
}

// Vectors, and a number for each row, are dense.
OperandLayout residual_operand_layout(const Graph& graph, const Node& node, int index) {
  if (index < 2) return OperandLayout::batched_matrix;
  const Shape& shape = graph.type(node.inputs[static_cast<std::size_t>(index)]).shape;
  return shape.rank() == 2 && shape[1] > 1 ? OperandLayout::aligned_rows : OperandLayout::dense;
}

std::unique_ptr<EndPlan> residual_plan(const KernelSpec& spec) {
  std::optional<ResidualPlan> plan = ResidualPlan::of(*residual_of(*spec.node.body), spec);
  return plan ? std::make_unique<ResidualPlan>(std::move(*plan)) : nullptr;
}

template <bool kIsBackward>
constexpr KernelVariant residual(DType dtype, const char* entry) {
  return {.op = Op::fused,
          .dtype = dtype,
          .least_capability = {9, 0},
          .is_for_that_capability_alone = true,
          .accepts = has_residual<kIsBackward>,
          .tiling = {.rows = 128, .columns = 128, .threads = LowMatmulTiling::kThreads},
          .image = kIsBackward ? "residual_backward_wgmma" : "residual_matmul_wgmma",
          .entry = entry,
          .layout = residual_operand_layout,
          .workspace_bytes = ended_product_workspace<residual_plan>,
          .rate = kIsBackward ? kBackwardRate : kNormRate,
          .make = make_ended_product<residual_plan>};
}

constexpr KernelVariant kResidualVariants[] = {
    residual<false>(DType::bf16, "fused_residual_norm_128x128_2x1_32k_bf16"),
    residual<true>(DType::bf16, "fused_residual_backward_128x128_2x1_32k_bf16"),
    residual<false>(DType::fp16, "fused_residual_norm_128x128_2x1_32k_fp16"),
    residual<true>(DType::fp16, "fused_residual_backward_128x128_2x1_32k_fp16"),
};

}  // namespace

std::span<const KernelVariant> residual_variants() { return kResidualVariants; }

}  // namespace ridgepoint::cuda
