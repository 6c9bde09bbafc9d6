// Products that end in what follows them: the kernels of a fused node whose body is a product and its end. An end is a
// recogniser of its body, an EndPlan, a .cu file whose kernels end the tiles of low_matmul.cuh, and its variants.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/kernels/variant.h"
#include "backends/cuda/products/epilogues/end_plan.h"

namespace ridgepoint::cuda {

// The plan of an end for a node that its variant accepts; null where its kernels do not support the layouts.
using EndPlanOf = std::unique_ptr<EndPlan> (*)(const KernelSpec& spec);

// All kernels for the node: first the product and what follows in two steps, where the plan may, or there is none; then
// those of the plan's candidates.
std::vector<std::unique_ptr<Kernel>> ended_product_ways(CudaContext& context, const KernelSpec& spec,
                                                        const EndPlan* plan);

// The fastest of these, measured once and kept as matmul/algorithm.h does. Launches with addresses for which its kernel
// is not made, such as the weights of a norm that do not begin at a multiple of 16 bytes, run in two steps.
std::unique_ptr<Kernel> make_ended_product(CudaContext& context, const KernelSpec& spec, const EndPlan* plan);
// That of the way that needs most, so that a memory plan does not depend on the choice.
std::size_t ended_product_workspace(const CardFacts& card, const KernelSpec& spec, const EndPlan* plan);

// The functions of a KernelVariant.
template <EndPlanOf kPlanOf>
std::unique_ptr<Kernel> make_ended_product(CudaContext& context, const KernelSpec& spec,
                                           const KernelVariant& /*variant*/) {
  return make_ended_product(context, spec, kPlanOf(spec).get());
}
template <EndPlanOf kPlanOf>
std::size_t ended_product_workspace(const KernelVariant& /*variant*/, const CardFacts& card, const KernelSpec& spec) {
  return ended_product_workspace(card, spec, kPlanOf(spec).get());
}

}  // namespace ridgepoint::cuda
