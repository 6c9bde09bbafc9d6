// The variants of products that end in SwiGLU or in its derivative.
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/ended_product.h"
#include "backends/cuda/products/epilogues/swiglu/swiglu_plan.h"

namespace ridgepoint::cuda {
namespace {

// Whether the node is SwiGLU of a product, or its derivative, whose rows are whole vectors.
template <bool kIsBackward>
bool has_swiglu(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  if (node.body == nullptr || node.inputs.size() != (kIsBackward ? 4U : 2U)) return false;
  const std::optional<SwigluNode> swiglu = swiglu_of(*node.body);
  if (!swiglu || swiglu->is_backward != kIsBackward) return false;
  constexpr std::int64_t kVector = 8;
  return graph.type(node.inputs[0]).elements() > 0 && swiglu->features > 0 && swiglu->features % kVector == 0 &&
         swiglu->inner > 0 && swiglu->inner % kVector == 0;
}

OperandLayout swiglu_operand_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index < 2 ? OperandLayout::batched_matrix : OperandLayout::aligned_rows;
}

std::unique_ptr<EndPlan> swiglu_plan(const KernelSpec& spec) {
  std::optional<SwigluPlan> plan = SwigluPlan::of(*swiglu_of(*spec.node.body), spec);
  return plan ? std::make_unique<SwigluPlan>(std::move(*plan)) : nullptr;
}

template <bool kIsBackward>
constexpr KernelVariant swiglu(DType dtype, const char* entry) {
  return {.op = Op::fused,
          .dtype = dtype,
          .least_capability = {9, 0},
          .is_for_that_capability_alone = true,
          .accepts = has_swiglu<kIsBackward>,
          .tiling = {.rows = 128, .columns = 128, .threads = LowMatmulTiling::kThreads},
          .image = "swiglu_matmul_wgmma",
          .entry = entry,
          .layout = swiglu_operand_layout,
          .strided_results = kIsBackward,
          .workspace_bytes = ended_product_workspace<swiglu_plan>,
          .rate = kElementwiseEpilogueRate,
          .make = make_ended_product<swiglu_plan>};
}

constexpr KernelVariant kSwigluVariants[] = {
    swiglu<false>(DType::bf16, "fused_swiglu_forward_128x128_1x1_bf16"),
    swiglu<true>(DType::bf16, "fused_swiglu_backward_128x128_1x1_bf16"),
    swiglu<false>(DType::fp16, "fused_swiglu_forward_128x128_1x1_fp16"),
    swiglu<true>(DType::fp16, "fused_swiglu_backward_128x128_1x1_fp16"),
};

}  // namespace

std::span<const KernelVariant> swiglu_variants() { return kSwigluVariants; }

}  // namespace ridgepoint::cuda
