// How a matmul is computed: the fastest of cuBLASLt's algorithms and, for fp32 on Hopper, of our own kernel's tilings,
// measured once for each shape, card, driver and library version, and remembered by this process and on disk.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/cuda/matmul/search.h"

namespace ridgepoint::cuda {

// `split` is null where our own kernel does not apply. Measuring takes memory of its own for a moment, outside every
// allocator and limit; where the card has none left the library's first candidate is taken and not remembered on disk.
// Throws Error (unsupported) when the library has no algorithm at all.
MatmulAlgorithm choose_algorithm(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                                 const SplitMatmulPlan* split);

// How an algorithm is written to disk, and read back; nullopt for anything else.
std::string algorithm_to_text(const MatmulAlgorithm& algorithm);
std::optional<MatmulAlgorithm> algorithm_from_text(std::string_view text);

}  // namespace ridgepoint::cuda
