// The parameters of the kernels of residual_matmul_wgmma.cu and residual_backward_wgmma.cu. Host and device code both
// include this header.
#pragma once

#include "backends/cuda/products/low_matmul/parameters.h"

namespace ridgepoint::cuda {

// Of epilogues that work on whole rows beside the product (rows_beside.cuh).
struct RowsBeside {
  static constexpr int kMostSlots = 8;     // rows in shared memory at a time
  static constexpr int kMostCounts = 256;  // rows of tiles
};

// sum = x + product, and normed = sum r g with r = rsqrt(mean of squares of a row of sum + epsilon).
struct ResidualMatmul {
  LowMatmul product;
  const void* products = nullptr;  // c
  const float* x = nullptr;
  const float* g = nullptr;
  float* sum = nullptr;
  void* normed = nullptr;        // in the operands' type
  float* reciprocal = nullptr;   // r of each row; null where nobody reads it
  unsigned* counts = nullptr;    // RowsBeside
  std::int64_t product_row = 0;  // elements between rows
  std::int64_t x_row = 0, sum_row = 0, normed_row = 0;
  float inverse_columns = 0, epsilon = 0;
};

// d = product is the gradient of normed, and `residual` that of sum from elsewhere:
// gradient = residual + d g r - sum r^3 mean(d g sum) is that of x, and of_g = sum of d sum r over the rows.
struct ResidualBackwardMatmul {
  LowMatmul product;
  const void* d = nullptr;  // c
  const float* sum = nullptr;
  const float* residual = nullptr;
  const float* g = nullptr;
  const float* reciprocal = nullptr;
  float* gradient = nullptr;
  void* low_gradient = nullptr;  // gradient in the operands' type; null where nobody reads it
  float* parts_of_g = nullptr;   // [blocks, n]
  unsigned* counts = nullptr;    // RowsBeside
  std::int64_t d_row = 0;        // elements between rows
  std::int64_t sum_row = 0, residual_row = 0, gradient_row = 0, low_gradient_row = 0;
  float inverse_columns = 0;
};

// sums [columns] = the sum of the rows of parts [rows, columns].
struct ColumnSums {
  const float* parts = nullptr;
  float* sums = nullptr;
  std::int32_t rows = 0, columns = 0;
};

}  // namespace ridgepoint::cuda
