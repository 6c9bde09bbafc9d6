// A matmul node reduced to what a GEMM sees: batch sizes, M, N, K and the strides of three matrices.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/device.h"

namespace ridgepoint {

inline constexpr int kMaxBatchRank = kMaxRank - 2;

// Strides in elements; those of batch dimensions are parallel to MatmulProblem::batch.
struct StridedMatrix {
  DType dtype = DType::fp32;
  std::array<std::int64_t, kMaxBatchRank> batch_strides{};
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::optional<double> immediate;  // every element; then all strides are 0
};

struct MatmulProblem {
  std::vector<std::int64_t> batch;  // no size-1 dimensions
  StridedMatrix a;                  // [batch, M, K]
  StridedMatrix b;                  // [batch, K, N]
  StridedMatrix c;                  // [batch, M, N], rows contiguous
  bool tf32 = false;                // operands are fp32, products take 10 bits of their mantissa
  std::int64_t batch_count() const;
  std::int64_t flops() const;
};

// Whether a matmul node asks for tf32 products.
bool is_tf32(const Node& node);

// Size-1 batch dimensions are dropped, and the innermost ones are folded into M while every one of their matrices
// meets the same b and the rows of a and c continue from one to the next: [B,S,D] x broadcast [D,F] is one matrix.
MatmulProblem read_matmul_problem(const KernelSpec& spec);

// How BLAS names the layout of a matrix: rows contiguous (or, transposed, columns), `leading` elements apart.
// nullopt when neither is the case: broadcast within the matrix, reversed or overlapping rows.
struct BlasLayout {
  bool transposed = false;
  std::int64_t leading = 1;
};
std::optional<BlasLayout> blas_layout(const StridedMatrix& matrix);

// Where the matrix of batch index `batch` begins, in elements.
std::int64_t batch_offset(const MatmulProblem& problem, const StridedMatrix& matrix, std::int64_t batch);

}  // namespace ridgepoint
