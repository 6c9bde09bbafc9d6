// A matmul, matmul_add or scaled_matmul node as a batched GEMM: batch sizes, M, N, K and the strides of the three
// matrices.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/device/device.h"

namespace ridgepoint {

inline constexpr int kMaxBatchRank = kMaxRank - 2;

// Strides in elements. batch_strides has the order of MatmulProblem::batch.
struct StridedMatrix {
  DType dtype = DType::fp32;
  std::array<std::int64_t, kMaxBatchRank> batch_strides{};
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::optional<double> immediate;  // the value of every element; then all strides are 0
};

struct MatmulProblem {
  std::vector<std::int64_t> batch;  // no size-1 dimensions
  StridedMatrix a;                  // [batch, M, K]
  StridedMatrix b;                  // [batch, K, N]
  StridedMatrix c;                  // [batch, M, N], rows contiguous
  bool adds = false;                // the last operand, a dense matrix like c, to the sums
  bool scaled = false;              // scaled_matmul: the sums are multiplied by both scales
  bool scales_rows = false;         // with one scale a row of both operands
  bool tf32 = false;                // the fp32 operands are rounded to 10 bits of mantissa
  std::int64_t batch_count() const;
  std::int64_t flops() const;
};

// Whether a matmul node computes in tf32.
bool is_tf32(const Node& node);

// Drops size-1 batch dimensions, and folds the innermost batch dimensions into M where b is broadcast along them and
// the rows of a and c have one stride: [B,S,D] x broadcast [D,F] is one matrix product of B*S rows.
MatmulProblem read_matmul_problem(const KernelSpec& spec);

// The layout of a row-major matrix for BLAS: contiguous rows (when transposed, columns) with the leading dimension
// `leading`. nullopt for other strides: broadcast within the matrix, reversed or overlapping rows.
struct BlasLayout {
  bool transposed = false;
  std::int64_t leading = 1;
};
std::optional<BlasLayout> blas_layout(const StridedMatrix& matrix);

// The offset of matrix `batch` of the batch, in elements.
std::int64_t batch_offset(const MatmulProblem& problem, const StridedMatrix& matrix, std::int64_t batch);

}  // namespace ridgepoint
