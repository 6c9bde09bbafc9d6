// The output tiles of cuBLASLt's kernels, and how long a product is expected to take with one.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/cuda/products/operands/mapping.h"

namespace ridgepoint::cuda {

struct LtTile {
  int m = 0, n = 0;
  friend bool operator==(const LtTile&, const LtTile&) = default;
};

// The tile of a number: cublasLtMatmulTile_t, as cublasLt.h of CUDA 13.0 lists them. nullopt for other numbers.
std::optional<LtTile> lt_tile(std::uint32_t number);

// The cycles of a product in such tiles whose sums over k are in `parts` parts: of the tiles that one multiprocessor
// computes one after another, each the time of its products or of its loads, and a part of the shorter one. Rough: to
// choose which tiles of one product are worth a measurement.
double expected_cycles(const LtProblem& problem, const LtTile& tile, int parts, int multiprocessors);

}  // namespace ridgepoint::cuda
