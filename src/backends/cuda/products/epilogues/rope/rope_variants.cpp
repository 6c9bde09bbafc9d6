// The variants of products that end in rotary embedding.
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/ended_product.h"
#include "backends/cuda/products/epilogues/rope/rope_plan.h"

namespace ridgepoint::cuda {
namespace {

// Whether the node is rotary embedding of a product, whose rows and heads are whole vectors.
bool has_rope_product(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  if (node.body == nullptr || node.inputs.size() != 4) return false;
  const std::optional<RopeNode> rope = rope_of(*node.body);
  if (!rope || graph.type(node.inputs[2]).dtype != DType::fp32) return false;
  constexpr std::int64_t kVector = 8;
  return rope->tokens > 0 && rope->features % kVector == 0 && rope->inner > 0 && rope->inner % kVector == 0 &&
         rope->head > 0 && rope->head % kVector == 0;
}

OperandLayout rope_operand_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index < 2 ? OperandLayout::batched_matrix : OperandLayout::dense;
}

std::unique_ptr<EndPlan> rope_plan(const KernelSpec& spec) {
  const std::optional<RopePlan> plan = RopePlan::of(*rope_of(*spec.node.body), spec);
  return plan ? std::make_unique<RopePlan>(*plan) : nullptr;
}

constexpr KernelVariant rope(DType dtype, const char* entry) {
  return {.op = Op::fused,
          .dtype = dtype,
          .least_capability = {9, 0},
          .is_for_that_capability_alone = true,
          .accepts = has_rope_product,
          .tiling = {.rows = 128, .columns = 128, .threads = LowMatmulTiling::kThreads},
          .image = "rope_matmul_wgmma",
          .entry = entry,
          .layout = rope_operand_layout,
          .workspace_bytes = ended_product_workspace<rope_plan>,
          .rate = kElementwiseEpilogueRate,
          .make = make_ended_product<rope_plan>};
}

constexpr KernelVariant kRopeProductVariants[] = {
    rope(DType::bf16, "fused_rope_forward_128x128_1x1_bf16"),
    rope(DType::fp16, "fused_rope_forward_128x128_1x1_fp16"),
};

}  // namespace

std::span<const KernelVariant> rope_product_variants() { return kRopeProductVariants; }

}  // namespace ridgepoint::cuda
