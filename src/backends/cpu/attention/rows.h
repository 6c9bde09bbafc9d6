// Vectorised row functions of attention. Blocks are row-major with `stride` floats between rows, a multiple of a
// vector: a row may be read and written up to the end of its last vector. Results overwrite their inputs; bf16 results
// fill the first half of their row.
#pragma once

#include <cstdint>

#include "ridgepoint/core/dtype.h"

namespace ridgepoint::cpu {

// The scores of a product: scale x, or cap tanh(scale x / cap) where there is a cap.
struct ScoreScale {
  float scale;
  float soft_cap;
};

// Scores of queries (rows) and keys (columns). The first row attends to the keys from `hidden` to `visible`, without
// the latter, and each following row to those `more` (0 or 1) further, within [0, columns].
struct ScoreBlock {
  float* scores;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
  std::int64_t hidden;
  std::int64_t visible;
  std::int64_t more;
};

// The state of each row's online softmax: the largest scaled score, the sum of exponentials shifted by it, and, after a
// call, the factor by which earlier sums must be multiplied.
struct RowSums {
  float* maximum;
  float* sum;
  float* factor;
};

// Online softmax (Milakov & Gimelshein 2018): products become exp(score - maximum) in fp32 or bf16, and 0 where masked;
// the sums are of exponentials before rounding.
void compute_exponentials(const ScoreBlock& block, const ScoreScale& scale, const RowSums& sums, DType to);

// Scores of keys (rows) and queries (columns), and the gradients of the weights. The queries from `hidden` to
// `visible`, without the latter, attend to the first row's key, and to that of each following row those `more` further.
struct GradientBlock {
  float* scores;
  float* gradients;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
  std::int64_t hidden;
  std::int64_t visible;
  std::int64_t more;
};

// Products become weights, w = exp(score - log_sum_exp); gradients g of weights become gradients of products, w (g -
// product) scale, and with a cap times 1 - (score / cap)^2; both are 0 where masked, in fp32 or bf16. `log_sum_exp` and
// `products` have one element for each query and may be read up to the end of a vector.
void compute_score_gradients(const GradientBlock& block, const ScoreScale& scale, const float* log_sum_exp,
                             const float* products, DType to);

// x[i] *= factor.
void scale_row(float* x, std::int64_t count, float factor);
// x[i] += y[i].
void add_row(float* x, const float* y, std::int64_t count);
float dot(const float* a, const float* b, std::int64_t count);

}  // namespace ridgepoint::cpu
