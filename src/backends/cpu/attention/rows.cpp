#include "backends/cpu/attention/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/rows.cpp"
#include "hwy/foreach_target.h"
// Highway requires these after foreach_target.h.
#include "backends/cpu/tile/functions/bf16-inl.h"
#include "backends/cpu/tile/functions/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Tag())); }

// Rounds to nearest even. Called only on processors with bf16 products.
HWY_INLINE void store_bf16(Vector x, std::uint16_t* address) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  // These processors have the instruction, but Highway's target does not include it. It replaces nine instructions.
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(address), rounded);
#else
  tile::HWY_NAMESPACE::store_bf16(Tag(), x, address);
#endif
}

// Stores a vector as elements i, i + 1, ... of a row.
template <bool kNarrow>
HWY_INLINE void store(Vector x, float* row, std::int64_t i) {
  if constexpr (kNarrow) {
    store_bf16(x, reinterpret_cast<std::uint16_t*>(row) + i);
  } else {
    hn::StoreU(x, Tag(), row + i);
  }
}

template <bool kNarrow>
HWY_INLINE void clear(float* row, std::int64_t begin, std::int64_t end) {
  if constexpr (kNarrow) {
    std::fill(reinterpret_cast<std::uint16_t*>(row) + begin, reinterpret_cast<std::uint16_t*>(row) + end,
              std::uint16_t{0});
  } else {
    std::fill(row + begin, row + end, 0.0F);
  }
}

// A mask of the lanes i, i + 1, ... that are in [begin, end).
HWY_INLINE hn::Mask<Tag> lanes_between(std::int64_t i, std::int64_t begin, std::int64_t end) {
  const hn::RebindToSigned<Tag> integers;
  const auto lane = hn::Iota(integers, static_cast<std::int32_t>(i));
  const auto before_end = hn::Lt(lane, hn::Set(integers, static_cast<std::int32_t>(end)));
  const auto before_begin = hn::Lt(lane, hn::Set(integers, static_cast<std::int32_t>(begin)));
  return hn::RebindMask(Tag(), hn::AndNot(before_begin, before_end));
}

// The largest scale x[i] for i in [begin, end), or -inf if there is none. NaN is ignored here: the exponential passes
// it on.
HWY_INLINE float largest(const float* x, std::int64_t begin, std::int64_t end, float scale) {
  const Tag tag;
  const auto factor = hn::Set(tag, scale);
  const auto lowest = hn::Set(tag, -kInfinity);
  auto most = lowest;
  for (std::int64_t i = begin / lanes() * lanes(); i < end; i += lanes()) {
    auto value = hn::Mul(hn::LoadU(tag, x + i), factor);
    if (i < begin || i + lanes() > end) value = hn::IfThenElse(lanes_between(i, begin, end), value, lowest);
    most = hn::Max(value, most);
  }
  return hn::GetLane(hn::MaxOfLanes(tag, most));
}

// x becomes cap tanh(scale x / cap).
HWY_INLINE void cap_scores(float* x, std::int64_t begin, std::int64_t end, const ScoreScale& scale) {
  const Tag tag;
  const auto factor = hn::Set(tag, scale.scale / scale.soft_cap);
  const auto cap = hn::Set(tag, scale.soft_cap);
  for (std::int64_t i = begin / lanes() * lanes(); i < end; i += lanes()) {
    const auto t = tile::HWY_NAMESPACE::tanh(tag, hn::Mul(hn::LoadU(tag, x + i), factor));
    hn::StoreU(hn::Mul(cap, t), tag, x + i);
  }
}

// exponential<kNarrow>() takes scores times this: base 2 saves a multiplication where weights become bf16.
template <bool kNarrow>
constexpr float kUnit = kNarrow ? 1.44269504F : 1.0F;

// e^(x / kUnit). For base 2 the relative error is below 1e-7, and the result is at least 2^-126, because processors are
// slow on subnormal numbers. NaN stays NaN for either operand order of the processor's maximum.
template <bool kNarrow>
HWY_INLINE Vector exponential(Vector x) {
  const Tag tag;
  if constexpr (!kNarrow) return tile::HWY_NAMESPACE::exp(tag, x);
  const auto magic = hn::Set(tag, 12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  const auto bounded = hn::Max(hn::Set(tag, -126.0F), x);
  const auto n = hn::Sub(hn::Add(bounded, magic), magic);
  const auto r = hn::Sub(bounded, n);
  auto y = hn::MulAdd(hn::Set(tag, 1.3264737e-3F), r, hn::Set(tag, 9.6715167e-3F));
  y = hn::MulAdd(y, r, hn::Set(tag, 5.5507336e-2F));
  y = hn::MulAdd(y, r, hn::Set(tag, 2.4022242e-1F));
  y = hn::MulAdd(y, r, hn::Set(tag, 6.9314700e-1F));
  return tile::HWY_NAMESPACE::scale_by_power(tag, hn::MulAdd(y, r, hn::Set(tag, 1.0F)), n);
}

// The elements of a row from `hidden` to `visible` become exp(scale x - shift), the others up to `count` become 0;
// returns the sum.
template <bool kNarrow>
HWY_INLINE float exponentials(float* x, std::int64_t hidden, std::int64_t visible, std::int64_t count, float scale,
                              float shift) {
  const Tag tag;
  const auto factor = hn::Set(tag, scale * kUnit<kNarrow>);
  const auto offset = hn::Set(tag, shift * kUnit<kNarrow>);
  auto sum = hn::Zero(tag);
  std::int64_t i = hidden / lanes() * lanes();
  clear<kNarrow>(x, 0, i);
  for (; i < visible; i += lanes()) {
    auto value = exponential<kNarrow>(hn::MulSub(hn::LoadU(tag, x + i), factor, offset));
    if (i < hidden || i + lanes() > visible) value = hn::IfThenElseZero(lanes_between(i, hidden, visible), value);
    store<kNarrow>(value, x, i);
    sum = hn::Add(sum, value);
  }
  if (i < count) clear<kNarrow>(x, i, count);
  return hn::GetLane(hn::SumOfLanes(tag, sum));
}

template <bool kNarrow>
void compute_exponentials_as(const ScoreBlock& block, const ScoreScale& scale, const RowSums& sums) {
  const bool capped = scale.soft_cap > 0;
  const float factor = capped ? 1.0F : scale.scale;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    float* scores = block.scores + row * block.stride;
    const std::int64_t hidden = std::clamp<std::int64_t>(block.hidden + row * block.more, 0, block.columns);
    const std::int64_t visible = std::clamp<std::int64_t>(block.visible + row * block.more, hidden, block.columns);
    if (capped) cap_scores(scores, hidden, visible, scale);
    const float maximum = std::max(sums.maximum[row], largest(scores, hidden, visible, factor));
    if (maximum == -kInfinity) {  // every score so far is -inf, with weight 0, or NaN, which makes the row NaN
      const auto is_nan = [&](float x) { return std::isnan(factor * x); };
      if (std::any_of(scores + hidden, scores + visible, is_nan)) sums.sum[row] = NAN;
      clear<kNarrow>(scores, 0, block.columns);
      sums.factor[row] = 1.0F;
      continue;
    }
    sums.factor[row] = maximum == sums.maximum[row] ? 1.0F : std::exp(sums.maximum[row] - maximum);
    sums.sum[row] = sums.sum[row] * sums.factor[row] +
                    exponentials<kNarrow>(scores, hidden, visible, block.columns, factor, maximum);
    sums.maximum[row] = maximum;
  }
}

void compute_exponentials(const ScoreBlock& block, const ScoreScale& scale, const RowSums& sums, DType to) {
  if (to == DType::bf16) return compute_exponentials_as<true>(block, scale, sums);
  compute_exponentials_as<false>(block, scale, sums);
}

template <bool kNarrow, bool kCapped>
void compute_score_gradients_as(const GradientBlock& block, const ScoreScale& scale, const float* log_sum_exp,
                                const float* products) {
  const Tag tag;
  const auto factor = hn::Set(tag, scale.scale);
  const auto score_factor = hn::Set(tag, (kCapped ? scale.soft_cap : scale.scale) * kUnit<kNarrow>);
  const auto cap_factor = hn::Set(tag, kCapped ? scale.scale / scale.soft_cap : 0.0F);
  const auto unit = hn::Set(tag, kUnit<kNarrow>);
  for (std::int64_t row = 0; row < block.rows; ++row) {
    float* scores = block.scores + row * block.stride;
    float* gradients = block.gradients + row * block.stride;
    const std::int64_t hidden = std::clamp<std::int64_t>(block.hidden + row * block.more, 0, block.columns);
    const std::int64_t visible = std::clamp<std::int64_t>(block.visible + row * block.more, hidden, block.columns);
    std::int64_t i = hidden / lanes() * lanes();
    clear<kNarrow>(scores, 0, i);
    clear<kNarrow>(gradients, 0, i);
    for (; i < visible; i += lanes()) {
      const auto shift = hn::Mul(hn::LoadU(tag, log_sum_exp + i), unit);
      auto score = hn::LoadU(tag, scores + i);
      if constexpr (kCapped) score = tile::HWY_NAMESPACE::tanh(tag, hn::Mul(score, cap_factor));
      auto weight = exponential<kNarrow>(hn::MulSub(score, score_factor, shift));
      const auto difference = hn::Mul(hn::Sub(hn::LoadU(tag, gradients + i), hn::LoadU(tag, products + i)), factor);
      auto gradient = hn::Mul(weight, difference);
      if constexpr (kCapped) gradient = hn::NegMulAdd(gradient, hn::Mul(score, score), gradient);
      if (i < hidden || i + lanes() > visible) {
        const auto seen = lanes_between(i, hidden, visible);
        weight = hn::IfThenElseZero(seen, weight);
        gradient = hn::IfThenElseZero(seen, gradient);
      }
      store<kNarrow>(weight, scores, i);
      store<kNarrow>(gradient, gradients, i);
    }
    if (i >= block.columns) continue;
    clear<kNarrow>(scores, i, block.columns);
    clear<kNarrow>(gradients, i, block.columns);
  }
}

void compute_score_gradients(const GradientBlock& block, const ScoreScale& scale, const float* log_sum_exp,
                             const float* products, DType to) {
  const bool narrow = to == DType::bf16;
  if (scale.soft_cap > 0) {
    return narrow ? compute_score_gradients_as<true, true>(block, scale, log_sum_exp, products)
                  : compute_score_gradients_as<false, true>(block, scale, log_sum_exp, products);
  }
  if (narrow) return compute_score_gradients_as<true, false>(block, scale, log_sum_exp, products);
  compute_score_gradients_as<false, false>(block, scale, log_sum_exp, products);
}

void scale_row(float* x, std::int64_t count, float factor) {
  const Tag tag;
  const auto factors = hn::Set(tag, factor);
  std::int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) hn::StoreU(hn::Mul(hn::LoadU(tag, x + i), factors), tag, x + i);
  for (; i < count; ++i) x[i] *= factor;
}

void add_row(float* x, const float* y, std::int64_t count) {
  const Tag tag;
  std::int64_t i = 0;
  for (; i + lanes() <= count; i += lanes())
    hn::StoreU(hn::Add(hn::LoadU(tag, x + i), hn::LoadU(tag, y + i)), tag, x + i);
  for (; i < count; ++i) x[i] += y[i];
}

float dot(const float* a, const float* b, std::int64_t count) {
  const Tag tag;
  auto sum = hn::Zero(tag);
  std::int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) sum = hn::MulAdd(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(tag, sum));
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}

}  // namespace ridgepoint::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridgepoint::cpu {

HWY_EXPORT(compute_exponentials);
HWY_EXPORT(compute_score_gradients);
HWY_EXPORT(scale_row);
HWY_EXPORT(add_row);
HWY_EXPORT(dot);

void compute_exponentials(const ScoreBlock& block, const ScoreScale& scale, const RowSums& sums, DType to) {
  HWY_DYNAMIC_DISPATCH(compute_exponentials)(block, scale, sums, to);
}
void compute_score_gradients(const GradientBlock& block, const ScoreScale& scale, const float* log_sum_exp,
                             const float* products, DType to) {
  HWY_DYNAMIC_DISPATCH(compute_score_gradients)(block, scale, log_sum_exp, products, to);
}
void scale_row(float* x, std::int64_t count, float factor) { HWY_DYNAMIC_DISPATCH(scale_row)(x, count, factor); }
void add_row(float* x, const float* y, std::int64_t count) { HWY_DYNAMIC_DISPATCH(add_row)(x, y, count); }
float dot(const float* a, const float* b, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(dot)(a, b, count); }

}  // namespace ridgepoint::cpu
#endif
