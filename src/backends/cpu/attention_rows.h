// What attention does to the rows of a block of scores, vectorised. Blocks are row-major, `stride` floats between rows;
// `visible` is how many columns a row sees: the first row `first_visible`, each next one `more` further (0 or 1),
// between 0 and all of them.
#pragma once

#include <cstdint>

namespace ridgepoint::cpu {

struct ScoreBlock {
  float* scores;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
  std::int64_t first_visible;
  std::int64_t more;
};

// Of each row's softmax so far: the largest scaled score, the sum of exponentials shifted by it, and, after a call, the
// factor by which what was summed before must shrink.
struct RowSums {
  float* top;
  float* sum;
  float* factor;
};

// Online softmax (Milakov & Gimelshein 2018): scores become exp(scale s - top), hidden ones 0.
void take_exponentials(const ScoreBlock& block, float scale, const RowSums& rows);
// Scores become exp(scale s - log_sum_exp of the row), hidden ones 0.
void take_weights(const ScoreBlock& block, float scale, const float* log_sum_exp);
// `gradients`, shaped as the block of weights, become weight (gradient - product of the row) scale.
void take_score_gradients(const ScoreBlock& weights, float scale, const float* products, float* gradients);

// x[i] *= factor.
void scale_row(float* x, std::int64_t count, float factor);
// x[i] += y[i].
void add_row(float* x, const float* y, std::int64_t count);
float dot(const float* a, const float* b, std::int64_t count);

}  // namespace ridgepoint::cpu
