// What attention does to the rows of a block of scores, vectorised. Blocks are row-major, `stride` floats between rows,
// a multiple of a vector, so that a row may be read and written to the end of its last vector. Results take the place
// of what they are made of; those in bf16 fill the first half of their row.
#pragma once

#include <cstdint>

#include "ridgepoint/dtype.h"

namespace ridgepoint::cpu {

// Scores of queries (rows) against keys. The first row sees the first `visible` keys, each next one `more` keys further
// (0 or 1), between none and all of them.
struct ScoreBlock {
  float* scores;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
  std::int64_t visible;
  std::int64_t more;
};

// Of each row's softmax so far: the largest scaled score, the sum of exponentials shifted by it, and, after a call, the
// factor by which what was summed before must shrink.
struct RowSums {
  float* top;
  float* sum;
  float* factor;
};

// Online softmax (Milakov & Gimelshein 2018): scores become exp(scale s - top), hidden ones 0, in fp32 or bf16; the
// sums are of the exponentials before rounding.
void take_exponentials(const ScoreBlock& block, float scale, const RowSums& sums, DType to);

// Scores of keys (rows) against queries, and the gradients of the weights they become. The first row is hidden from the
// first `hidden` queries, each next one from `more` further.
struct GradientBlock {
  float* scores;
  float* gradients;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
  std::int64_t hidden;
  std::int64_t more;
};

// Scores become weights, w = exp(scale s - log_sum_exp), gradients g those of scores, w (g - product) scale; both 0
// where hidden, in fp32 or bf16. `log_sum_exp` and `products` have an element a query and may be read to the end of a
// vector.
void take_score_gradients(const GradientBlock& block, float scale, const float* log_sum_exp, const float* products,
                          DType to);

// x[i] *= factor.
void scale_row(float* x, std::int64_t count, float factor);
// x[i] += y[i].
void add_row(float* x, const float* y, std::int64_t count);
float dot(const float* a, const float* b, std::int64_t count);

}  // namespace ridgepoint::cpu
