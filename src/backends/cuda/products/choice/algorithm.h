// Chooses the algorithm of a matmul: the fastest of cuBLASLt's algorithms and, for fp32, bf16 and fp16 on Hopper, of
// our own kernels' tilings. It is measured once for each shape, GPU, driver and library version, and remembered by the
// process and on disk. Of processes that measure at once, as ranks do, all take the choice of the first, so that the
// next run computes the same bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/cuda/products/choice/search.h"

namespace ridgepoint::cuda {

// Measuring allocates temporary memory outside every allocator and
// limit; without enough memory the library's first candidate is chosen and not remembered on disk. Throws Error
// (unsupported) if the library has no algorithm at all.
MatmulAlgorithm choose_algorithm(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                                 const OwnMatmuls& own);

// The text form of an algorithm on disk, and the reverse; nullopt for other text.
std::string algorithm_to_text(const MatmulAlgorithm& algorithm);
std::optional<MatmulAlgorithm> algorithm_from_text(std::string_view text);

}  // namespace ridgepoint::cuda
