// Measures matmul algorithms against each other on the card.
#pragma once

#include <optional>
#include <span>

#include "backends/cuda/matmul_plan.h"

namespace ridgepoint::cuda {

// The index of the algorithm that takes least time for one launch on random operands, after one launch that does not
// count; nullopt when the card has no memory for the operands or none of them runs. Synchronous.
std::optional<std::size_t> fastest_algorithm(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                                             std::span<const cublasLtMatmulAlgo_t> algorithms);

}  // namespace ridgepoint::cuda
