// Products with epilogues: the kernels of a fused node whose body is a product and its epilogue. An epilogue is the
// pattern of its body, an EpiloguePlan, a .cu file whose kernels have it for the tiles of low_matmul.cuh, and its rows
// in the table of variants.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/kernels/variant.h"
#include "backends/cuda/products/epilogues/epilogue_plan.h"

namespace ridgepoint::cuda {

// All kernels for the node: first the product and what follows in two steps, where the plan may, or there is none; then
// those of the plan's candidates.
std::vector<std::unique_ptr<Kernel>> fused_product_ways(CudaContext& context, const KernelSpec& spec,
                                                        const EpiloguePlan* plan);

// The fastest of these, measured once and kept as choice/search.h does. Launches with addresses for which its kernel
// is not made, such as the weights of a norm that do not begin at a multiple of 16 bytes, run in two steps.
std::unique_ptr<Kernel> make_fused_product(CudaContext& context, const KernelSpec& spec, const EpiloguePlan* plan);
// That of the way that needs most, so that a memory plan does not depend on the choice.
std::size_t fused_product_workspace(const CardFacts& card, const KernelSpec& spec, const EpiloguePlan* plan);

// The plan of an epilogue for a node whose body has it; null if its kernels do not support the layouts.
template <class Plan, auto kEpilogueOf>
std::unique_ptr<EpiloguePlan> epilogue_plan(const KernelSpec& spec) {
  std::optional<Plan> plan = Plan::of(*kEpilogueOf(*spec.node.body), spec);
  return plan ? std::make_unique<Plan>(*std::move(plan)) : nullptr;
}

// What the variants of an epilogue have of a KernelVariant in common. `entry` is the kernel of the first tiling.
template <class Plan, auto kEpilogueOf>
constexpr KernelVariant fused_product_variant(DType dtype, const char* image, const char* entry,
                                              const EpilogueRate& rate = kElementwiseEpilogueRate) {
  return {.op = Op::fused,
          .dtype = dtype,
          .least_capability = {9, 0},
          .is_for_that_capability_alone = true,
          .tiling = {.rows = 128, .columns = 128, .threads = LowMatmulTiling::kThreads},
          .image = image,
          .entry = entry,
          .workspace_bytes =
              [](const KernelVariant& /*variant*/, const CardFacts& card, const KernelSpec& spec) {
                return fused_product_workspace(card, spec, epilogue_plan<Plan, kEpilogueOf>(spec).get());
              },
          .rate = rate,
          .make =
              [](CudaContext& context, const KernelSpec& spec, const KernelVariant& /*variant*/) {
                return make_fused_product(context, spec, epilogue_plan<Plan, kEpilogueOf>(spec).get());
              }};
}

}  // namespace ridgepoint::cuda
