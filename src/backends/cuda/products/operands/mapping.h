// A matmul in cuBLASLt's terms. The library's matrices are column-major, so a row-major product is computed as its
// transpose, c^T = b^T a^T: its first operand is the node's second, and no data moves. Needs no GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/matmul_problem.h"

namespace ridgepoint::cuda {

// One batch dimension and the strides of the node's a, b and c along it, in elements.
struct BatchAxis {
  std::int64_t size;
  std::array<std::int64_t, 3> strides;
};
// The batch dimensions, outermost first; neighbours with one even stride for all three matrices are merged.
std::vector<BatchAxis> merged_batch(const MatmulProblem& problem);

// Column-major, with `leading` elements between columns; `transposed`: the product uses the transpose.
struct LtMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t leading = 1;
  std::int64_t batch_stride = 0;
  bool transposed = false;
  // The number of elements from the first to the last one of the whole batch.
  std::int64_t elements(std::int64_t batch) const;
};

// m x k times k x n; one launch computes `batch` products.
struct LtProblem {
  DType dtype = DType::fp32;         // of the operands; of codes that of b, the node's first operand
  DType a_dtype = DType::fp32;       // `dtype`, or the other dtype of 8-bit codes
  DType result_dtype = DType::fp32;  // `dtype` or its accumulator; of codes, any of 16 or 32 bits
  bool adds = false;                 // to an addend, which has the layout of c
  bool tf32 = false;                 // products of fp32 operands in TF32
  bool scales_rows = false;          // of 8-bit codes: one scale a row of each of the node's operands
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  LtMatrix a;  // the node's second operand
  LtMatrix b;  // the node's first operand
  LtMatrix c;
  std::vector<BatchAxis> axes;  // every batch dimension, merged; one of them is `batch`

  // Batch dimensions that one stride does not cover need one launch for each index; offsets are in elements.
  struct Launch {
    std::int64_t a = 0, b = 0, c = 0;
  };
  std::vector<Launch> launches;
  // The alignment of the addresses of every launch if the operands are aligned to kMatmulAlignmentBytes.
  std::int64_t alignment_bytes = 0;

  // The number of elements from the first to the last one that any launch uses: elements(a, &Launch::a).
  std::int64_t elements(const LtMatrix& matrix, std::int64_t Launch::*offset) const;
  // Everything on which the choice of an algorithm may depend, except the GPU and the library: fp32 512x256x64 nt ...
  std::string key() const;
  // The workspace of a launch, by a fixed rule that needs no GPU: the partial sums of up to kMaxSplits splits of k if k
  // is long enough for split-K, and at most kMaxWorkspaceBytes.
  std::size_t workspace_bytes() const;
};

// The alignment that operands need; allocators guarantee 512.
inline constexpr std::int64_t kMatmulAlignmentBytes = 256;
inline constexpr std::size_t kMaxWorkspaceBytes = std::size_t{32} << 20;
inline constexpr std::int64_t kMaxSplits = 16;
inline constexpr std::int64_t kLeastSplitK = 256;

// Throws Error for operands that no BLAS layout describes (OperandLayout::matrix excludes them), and (unsupported) for
// sizes of 2^31 and more.
LtProblem map_matmul(const MatmulProblem& problem);

}  // namespace ridgepoint::cuda
