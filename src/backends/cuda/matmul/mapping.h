// A matmul as cuBLASLt sees it. The library stores matrices column by column, so a row-major product is handed over
// as its transpose: c^T = b^T a^T. Its first operand is then the node's second, and no data moves. Needs no card.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/matmul_problem.h"

namespace ridgepoint::cuda {

// One batch dimension and the strides of the node's a, b and c along it, in elements.
struct BatchAxis {
  std::int64_t size;
  std::array<std::int64_t, 3> strides;
};
// Outermost first; neighbours that one stride walks for all three matrices are one.
std::vector<BatchAxis> merged_batch(const MatmulProblem& problem);

// Stored column by column, columns `leading` elements apart; `transposed` says that the product uses its transpose.
struct LtMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t leading = 1;
  std::int64_t batch_stride = 0;
  bool transposed = false;
  // From the first element to behind the last one of the whole batch.
  std::int64_t elements(std::int64_t batch) const;
};

// m x k times k x n, `batch` of them in one launch.
struct LtProblem {
  DType dtype = DType::fp32;
  bool tf32 = false;  // products of fp32 operands in TF32
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  LtMatrix a;  // the node's second operand
  LtMatrix b;  // the node's first operand
  LtMatrix c;
  std::vector<BatchAxis> axes;  // every batch dimension, merged; one of them is `batch`

  // Batch dimensions that one stride does not reach are launched one after the other; offsets in elements.
  struct Launch {
    std::int64_t a = 0, b = 0, c = 0;
  };
  std::vector<Launch> launches;
  // What the addresses of every launch are multiples of, when those of the operands are of kMatmulAlignmentBytes.
  std::int64_t alignment_bytes = 0;

  // From the first element of a matrix to behind the last that any launch touches: elements(a, &Launch::a).
  std::int64_t elements(const LtMatrix& matrix, std::int64_t Launch::*offset) const;
  // Everything a choice of algorithm may depend on, but for the card and the library: fp32 512x256x64 nt ...
  std::string key() const;
  // Memory for the launch, a fixed rule so that it is known without a card: room for the partial sums of up to
  // kMaxSplits parts of k where k is long enough to be worth splitting, and at most kMaxWorkspaceBytes.
  std::size_t workspace_bytes() const;
};

// Where operands must begin; allocators give 512.
inline constexpr std::int64_t kMatmulAlignmentBytes = 256;
inline constexpr std::size_t kMaxWorkspaceBytes = std::size_t{32} << 20;
inline constexpr std::int64_t kMaxSplits = 16;
inline constexpr std::int64_t kLeastSplitK = 256;

// Throws Error for operands that no BLAS layout describes (OperandLayout::matrix rules them out) and (unsupported)
// for sizes past 2^31.
LtProblem map_matmul(const MatmulProblem& problem);

}  // namespace ridgepoint::cuda
