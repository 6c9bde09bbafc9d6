// Which of cuBLASLt's algorithms a matmul uses: the fastest of the library's own candidates, measured once for each
// shape, card and library version, and remembered by this process and on disk.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/cuda/matmul_plan.h"

namespace ridgepoint::cuda {

// Measuring takes memory of its own for a moment, outside every allocator and limit; where the card has none left
// the library's first candidate is taken and not remembered on disk.
// Throws Error (unsupported) when the library has no algorithm at all.
cublasLtMatmulAlgo_t choose_algorithm(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem);

// How an algorithm is written to disk, 128 hexadecimal digits, and read back; nullopt for anything else.
std::string algorithm_to_text(const cublasLtMatmulAlgo_t& algorithm);
std::optional<cublasLtMatmulAlgo_t> algorithm_from_text(std::string_view text);

}  // namespace ridgepoint::cuda
