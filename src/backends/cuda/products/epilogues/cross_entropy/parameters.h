// The parameters of the kernels of cross_entropy_matmul_wgmma.cu. Host and device code both include this header.
#pragma once

#include "backends/cuda/products/low_matmul/parameters.h"

namespace ridgepoint::cuda {

// A row of logits within a tile: the largest one, or the lowest finite number where all are -infinity; and the sum of
// e^(x - maximum).
struct RowPart {
  float maximum, sum;
};

// The product is the logits, which are c.
struct CrossEntropyMatmul {
  LowMatmul product;
  const long long* targets = nullptr;  // [m]
  RowPart* parts = nullptr;            // [tiles of columns,m]
  float* target_logits = nullptr;      // [m], of rows whose target is in the vocabulary
  std::int32_t writes_logits = 1;      // otherwise c has no map
};

// Joins the parts of each row.
struct CrossEntropyFinish {
  const RowPart* parts = nullptr;
  const float* target_logits = nullptr;
  const long long* targets = nullptr;
  float* losses = nullptr;
  float* log_sum_exps = nullptr;  // null: not written
  std::int32_t rows = 0;
  std::int32_t parts_of_row = 0;
  std::int32_t vocabulary = 0;
  float z_loss = 0;  // the factor of the squared log-sum-exp

  static constexpr int kThreads = 256;
  static constexpr int kRows = 32;  // of a block
};

}  // namespace ridgepoint::cuda
