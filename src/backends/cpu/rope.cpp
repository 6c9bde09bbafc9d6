#include "backends/cpu/rope.h"

#include <algorithm>
#include <array>

#include "core/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rope.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "hwy/highway.h"

#ifndef RIDGEPOINT_ROPE_ROWS
#define RIDGEPOINT_ROPE_ROWS
namespace ridgepoint::cpu {

// The rows of a [...,D] operand, D = 2 * half: a loop nest over its leading dimensions.
struct RopeRows {
  int depth = 0;
  int position_axis = 0;
  std::array<std::int64_t, kMaxRank - 1> sizes{};
  std::array<std::int64_t, kMaxRank - 1> strides{};
  std::int64_t element_stride = 1;
  std::int64_t half = 0;
  bool inverse = false;
};

struct RopeOperands {
  const float* x;
  const float* cosines;
  const float* sines;
  float* y;
};

}  // namespace ridgepoint::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One row. Returns how many pairs were done: the rest does not fill a vector, or x has another stride than 1.
HWY_INLINE std::int64_t rotate_vectors(const float* x, const float* cosines, const float* sines, bool inverse,
                                       std::int64_t half, float* y) {
  const hn::ScalableTag<float> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  std::int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    auto first = hn::Undefined(tag);
    auto second = hn::Undefined(tag);
    hn::LoadInterleaved2(tag, x + 2 * i, first, second);
    const auto cosine = hn::LoadU(tag, cosines + i);
    const auto loaded = hn::LoadU(tag, sines + i);
    const auto sine = inverse ? hn::Neg(loaded) : loaded;
    const auto rotated_first = hn::NegMulAdd(second, sine, hn::Mul(first, cosine));
    const auto rotated_second = hn::MulAdd(first, sine, hn::Mul(second, cosine));
    hn::StoreInterleaved2(rotated_first, rotated_second, tag, y + 2 * i);
  }
  return i;
}

void rotate_rows(const RopeRows& rows, const RopeOperands& operands, std::int64_t begin, std::int64_t end) {
  std::array<std::int64_t, kMaxRank - 1> index{};
  const float* x = operands.x;
  std::int64_t rest = begin;
  for (int axis = rows.depth; axis-- > 0;) {
    const auto a = static_cast<std::size_t>(axis);
    index[a] = rest % rows.sizes[a];
    rest /= rows.sizes[a];
    x += index[a] * rows.strides[a];
  }
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t position = index[static_cast<std::size_t>(rows.position_axis)];
    const float* cosines = operands.cosines + position * rows.half;
    const float* sines = operands.sines + position * rows.half;
    float* y = operands.y + row * 2 * rows.half;
    const bool unit = rows.element_stride == 1;
    for (std::int64_t i = unit ? rotate_vectors(x, cosines, sines, rows.inverse, rows.half, y) : 0; i < rows.half;
         ++i) {
      const float first = x[2 * i * rows.element_stride];
      const float second = x[(2 * i + 1) * rows.element_stride];
      const float sine = rows.inverse ? -sines[i] : sines[i];
      y[2 * i] = first * cosines[i] - second * sine;
      y[2 * i + 1] = second * cosines[i] + first * sine;
    }
    for (int axis = rows.depth; axis-- > 0;) {
      const auto a = static_cast<std::size_t>(axis);
      x += rows.strides[a];
      if (++index[a] < rows.sizes[a]) break;
      x -= rows.strides[a] * rows.sizes[a];
      index[a] = 0;
    }
  }
}

}  // namespace ridgepoint::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridgepoint::cpu {
namespace {

HWY_EXPORT(rotate_rows);

constexpr std::int64_t kGrainElements = 1 << 13;

RopeRows rows_of(const KernelSpec& spec) {
  const TensorLayout& x = spec.inputs[0];
  const int rank = x.shape.rank();
  RopeRows rows;
  rows.depth = rank - 1;
  rows.position_axis = normalise_axis(spec.node.attributes.get<std::int64_t>("axis"), rank);
  rows.half = x.shape[-1] / 2;
  rows.inverse = spec.node.attributes.get<bool>("inverse");
  rows.element_stride = x.immediate ? 0 : x.strides[static_cast<std::size_t>(rank - 1)];
  for (int axis = 0; axis < rows.depth; ++axis) {
    rows.sizes[static_cast<std::size_t>(axis)] = x.shape[axis];
    rows.strides[static_cast<std::size_t>(axis)] = x.immediate ? 0 : x.strides[static_cast<std::size_t>(axis)];
  }
  return rows;
}

class RopeVectors : public Kernel {
 public:
  explicit RopeVectors(const KernelSpec& spec)
      : rows_(rows_of(spec)),
        count_(rows_.half == 0 ? 0 : spec.outputs[0].shape.elements() / (2 * rows_.half)),
        immediate_(static_cast<float>(spec.inputs[0].immediate.value_or(0.0))) {}

  std::string_view name() const override { return rows_.inverse ? "rope_backward_vectors" : "rope_forward_vectors"; }

  void launch(const LaunchArguments& arguments) override {
    // An immediate has no memory: every element is the one kept here.
    const void* x = arguments.inputs[0] != nullptr ? arguments.inputs[0] : &immediate_;
    const RopeOperands operands{static_cast<const float*>(x), static_cast<const float*>(arguments.inputs[1]),
                                static_cast<const float*>(arguments.inputs[2]),
                                static_cast<float*>(arguments.outputs[0])};
    parallel_for(count_, std::max<std::int64_t>(kGrainElements / std::max<std::int64_t>(2 * rows_.half, 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   HWY_DYNAMIC_DISPATCH(rotate_rows)(rows_, operands, begin, end);
                 });
  }

 private:
  RopeRows rows_;
  std::int64_t count_;
  float immediate_;
};

}  // namespace

std::unique_ptr<Kernel> make_rope_kernel(const KernelSpec& spec) { return std::make_unique<RopeVectors>(spec); }

}  // namespace ridgepoint::cpu
#endif
