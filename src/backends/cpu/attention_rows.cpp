#include "backends/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention_rows.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "backends/cpu/tile_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

HWY_INLINE std::int64_t visible_columns(const ScoreBlock& block, std::int64_t row) {
  return std::clamp<std::int64_t>(block.first_visible + row * block.more, 0, block.columns);
}

HWY_INLINE float largest(const float* x, std::int64_t count) {
  const Tag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  auto most = hn::Set(tag, -std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) most = hn::Max(most, hn::LoadU(tag, x + i));
  float result = hn::GetLane(hn::MaxOfLanes(tag, most));
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

// x[i] = exp(scale x[i] - shift) for the first `visible`, 0 behind them; returns their sum.
HWY_INLINE float exponentials(float* x, std::int64_t visible, std::int64_t count, float scale, float shift) {
  const Tag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto factor = hn::Set(tag, scale);
  const auto offset = hn::Set(tag, shift);
  auto sum = hn::Zero(tag);
  std::int64_t i = 0;
  for (; i + lanes <= visible; i += lanes) {
    const auto value = tile::HWY_NAMESPACE::exp(tag, hn::MulSub(hn::LoadU(tag, x + i), factor, offset));
    hn::StoreU(value, tag, x + i);
    sum = hn::Add(sum, value);
  }
  float total = hn::GetLane(hn::SumOfLanes(tag, sum));
  for (; i < visible; ++i) {
    x[i] = hn::GetLane(tile::HWY_NAMESPACE::exp(tag, hn::Set(tag, x[i] * scale - shift)));
    total += x[i];
  }
  std::fill(x + visible, x + count, 0.0F);
  return total;
}

void take_exponentials(const ScoreBlock& block, float scale, const RowSums& rows) {
  for (std::int64_t row = 0; row < block.rows; ++row) {
    float* scores = block.scores + row * block.stride;
    const std::int64_t visible = visible_columns(block, row);
    const float top = std::max(rows.top[row], scale * largest(scores, visible));
    if (top == -std::numeric_limits<float>::infinity()) {  // nothing seen so far that weighs anything
      std::fill(scores, scores + block.columns, 0.0F);
      rows.factor[row] = 1.0F;
      continue;
    }
    rows.factor[row] = std::exp(rows.top[row] - top);
    rows.sum[row] = rows.sum[row] * rows.factor[row] + exponentials(scores, visible, block.columns, scale, top);
    rows.top[row] = top;
  }
}

void take_weights(const ScoreBlock& block, float scale, const float* log_sum_exp) {
  for (std::int64_t row = 0; row < block.rows; ++row) {
    exponentials(block.scores + row * block.stride, visible_columns(block, row), block.columns, scale,
                 log_sum_exp[row]);
  }
}

void take_score_gradients(const ScoreBlock& weights, float scale, const float* products, float* gradients) {
  const Tag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto factor = hn::Set(tag, scale);
  for (std::int64_t row = 0; row < weights.rows; ++row) {
    const float* weight = weights.scores + row * weights.stride;
    float* gradient = gradients + row * weights.stride;
    const auto product = hn::Set(tag, products[row]);
    std::int64_t i = 0;
    for (; i + lanes <= weights.columns; i += lanes) {
      const auto difference = hn::Mul(hn::Sub(hn::LoadU(tag, gradient + i), product), factor);
      hn::StoreU(hn::Mul(hn::LoadU(tag, weight + i), difference), tag, gradient + i);
    }
    for (; i < weights.columns; ++i) gradient[i] = weight[i] * ((gradient[i] - products[row]) * scale);
  }
}

void scale_row(float* x, std::int64_t count, float factor) {
  const Tag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto factors = hn::Set(tag, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(tag, x + i), factors), tag, x + i);
  for (; i < count; ++i) x[i] *= factor;
}

void add_row(float* x, const float* y, std::int64_t count) {
  const Tag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(tag, x + i), hn::LoadU(tag, y + i)), tag, x + i);
  }
  for (; i < count; ++i) x[i] += y[i];
}

float dot(const float* a, const float* b, std::int64_t count) {
  const Tag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  auto sum = hn::Zero(tag);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::MulAdd(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(tag, sum));
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}

}  // namespace ridgepoint::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridgepoint::cpu {

HWY_EXPORT(take_exponentials);
HWY_EXPORT(take_weights);
HWY_EXPORT(take_score_gradients);
HWY_EXPORT(scale_row);
HWY_EXPORT(add_row);
HWY_EXPORT(dot);

void take_exponentials(const ScoreBlock& block, float scale, const RowSums& rows) {
  HWY_DYNAMIC_DISPATCH(take_exponentials)(block, scale, rows);
}
void take_weights(const ScoreBlock& block, float scale, const float* log_sum_exp) {
  HWY_DYNAMIC_DISPATCH(take_weights)(block, scale, log_sum_exp);
}
void take_score_gradients(const ScoreBlock& weights, float scale, const float* products, float* gradients) {
  HWY_DYNAMIC_DISPATCH(take_score_gradients)(weights, scale, products, gradients);
}
void scale_row(float* x, std::int64_t count, float factor) { HWY_DYNAMIC_DISPATCH(scale_row)(x, count, factor); }
void add_row(float* x, const float* y, std::int64_t count) { HWY_DYNAMIC_DISPATCH(add_row)(x, y, count); }
float dot(const float* a, const float* b, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(dot)(a, b, count); }

}  // namespace ridgepoint::cpu
#endif
