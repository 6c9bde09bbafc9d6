// Our own kernels for products, as they apply to one product.
#pragma once

#include <optional>
#include <string>

#include "backends/cuda/products/low_matmul/low_matmul.h"
#include "backends/cuda/products/split_matmul/split_matmul.h"

namespace ridgepoint::cuda {

struct OwnMatmuls {
  // Empty if the kernels do not apply to the product or do not run on such a GPU.
  std::optional<SplitMatmulPlan> split;
  std::optional<LowMatmulPlan> low;

  static OwnMatmuls of(const CardFacts& card, const MatmulProblem& problem) {
    OwnMatmuls own;
    if (has_split_matmul(card) && !problem.tf32) own.split = SplitMatmulPlan::of(problem);
    if (has_low_matmul(card)) own.low = LowMatmulPlan::of(problem);
    return own;
  }

  // The kernels and their versions: "and split 2"; "alone" if none applies.
  std::string versions() const {
    if (split) return "and split " + std::to_string(SplitMatmulPlan::kVersion);
    return low ? "and low " + std::to_string(LowMatmulPlan::kVersion) : "alone";
  }
  // What they need beyond the library's workspace; low_matmul's tilings keep to that.
  std::size_t workspace_bytes() const { return split ? split->workspace_bytes() : 0; }
};

}  // namespace ridgepoint::cuda
