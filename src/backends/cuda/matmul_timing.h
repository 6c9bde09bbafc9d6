// Measures matmul algorithms against each other on the card.
#pragma once

#include <cmath>
#include <optional>
#include <span>

#include "backends/cuda/matmul_plan.h"

namespace ridgepoint::cuda {

struct FastestAlgorithm {
  std::size_t index;  // into the algorithms given
  double ms;          // of one launch
};

// The algorithm that takes least time for one launch on random operands, after one launch that does not count;
// nullopt when the card has no memory for the operands or none of them runs. One that takes longer than `to_beat_ms`
// is given up early. Synchronous.
std::optional<FastestAlgorithm> fastest_algorithm(CudaContext& context, const MatmulPlan& plan,
                                                  const LtProblem& problem,
                                                  std::span<const cublasLtMatmulAlgo_t> algorithms,
                                                  double to_beat_ms = INFINITY);

}  // namespace ridgepoint::cuda
