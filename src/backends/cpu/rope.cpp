// Rotary embedding.
#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cpu/kernels.h"
#include "core/threads/parallel.h"
#include "core/types/bf16.h"
#include "ridgepoint/ir/tensor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rope.cpp"
#include "hwy/foreach_target.h"
// Highway requires these after foreach_target.h.
#include "hwy/highway.h"

#ifndef RIDGEPOINT_ROPE_ROWS
#define RIDGEPOINT_ROPE_ROWS
namespace ridgepoint::cpu {

// The rows of a [...,D] operand with D = 2 * half, as a loop nest over its leading dimensions.
struct RopeRows {
  int depth = 0;
  int position_axis = 0;
  std::array<std::int64_t, kMaxRank - 1> sizes{};
  std::array<std::int64_t, kMaxRank - 1> strides{};
  std::int64_t element_stride = 1;
  std::int64_t half = 0;
  bool inverse = false;
};

// x and y have elements of type float, or the bits of bf16.
template <typename T>
struct RopeOperands {
  const T* x;
  const float* cosines;
  const float* sines;
  T* y;
};

}  // namespace ridgepoint::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using WordTag = hn::RebindToUnsigned<FloatTag>;

HWY_INLINE float widened(float value) { return value; }
HWY_INLINE float widened(std::uint16_t bits) { return widen_bf16(bits); }
HWY_INLINE void narrow(float value, float* target) { *target = value; }
HWY_INLINE void narrow(float value, std::uint16_t* target) { *target = round_to_bf16(value); }

using FloatVector = hn::Vec<FloatTag>;

HWY_INLINE void load_pairs(const float* x, FloatVector& first, FloatVector& second) {
  hn::LoadInterleaved2(FloatTag(), x, first, second);
}
// A pair of bf16 is one 32-bit word: the high half is the bits of the second float, the low half those of the first.
HWY_INLINE void load_pairs(const std::uint16_t* x, FloatVector& first, FloatVector& second) {
  const WordTag words;
  const auto pairs = hn::LoadU(words, reinterpret_cast<const std::uint32_t*>(x));
  first = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(pairs));
  second = hn::BitCast(FloatTag(), hn::And(pairs, hn::Set(words, 0xFFFF0000U)));
}

HWY_INLINE void store_pairs(FloatVector first, FloatVector second, float* y) {
  hn::StoreInterleaved2(first, second, FloatTag(), y);
}
HWY_INLINE hn::Vec<WordTag> rounded_bits(FloatVector value) {
  const WordTag words;
  const auto bits = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1U));
  const auto rounded = hn::Add(bits, hn::Add(hn::Set(words, 0x7FFFU), odd));
  const auto is_number = hn::RebindMask(words, hn::Eq(value, value));
  return hn::IfThenElse(is_number, rounded, hn::Or(bits, hn::Set(words, 0x400000U)));
}
HWY_INLINE void store_pairs(FloatVector first, FloatVector second, std::uint16_t* y) {
  const WordTag words;
  const auto high = hn::And(rounded_bits(second), hn::Set(words, 0xFFFF0000U));
  const auto pairs = hn::Or(high, hn::ShiftRight<16>(rounded_bits(first)));
  hn::StoreU(pairs, words, reinterpret_cast<std::uint32_t*>(y));
}

// Rotates whole vectors of one row with element stride 1, and returns the number of pairs done.
template <typename T>
HWY_INLINE std::int64_t rotate_vectors(const T* x, const float* cosines, const float* sines, bool inverse,
                                       std::int64_t half, T* y) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  std::int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    auto first = hn::Undefined(tag);
    auto second = hn::Undefined(tag);
    load_pairs(x + 2 * i, first, second);
    const auto cosine = hn::LoadU(tag, cosines + i);
    const auto loaded = hn::LoadU(tag, sines + i);
    const auto sine = inverse ? hn::Neg(loaded) : loaded;
    const auto rotated_first = hn::NegMulAdd(second, sine, hn::Mul(first, cosine));
    const auto rotated_second = hn::MulAdd(first, sine, hn::Mul(second, cosine));
    store_pairs(rotated_first, rotated_second, y + 2 * i);
  }
  return i;
}

template <typename T>
HWY_INLINE void rotate(const RopeRows& rows, const RopeOperands<T>& operands, std::int64_t begin, std::int64_t end) {
  std::array<std::int64_t, kMaxRank - 1> index{};
  const T* x = operands.x;
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
    T* y = operands.y + row * 2 * rows.half;
    const bool unit = rows.element_stride == 1;
    for (std::int64_t i = unit ? rotate_vectors(x, cosines, sines, rows.inverse, rows.half, y) : 0; i < rows.half;
         ++i) {
      const float first = widened(x[2 * i * rows.element_stride]);
      const float second = widened(x[(2 * i + 1) * rows.element_stride]);
      const float sine = rows.inverse ? -sines[i] : sines[i];
      narrow(first * cosines[i] - second * sine, y + 2 * i);
      narrow(second * cosines[i] + first * sine, y + 2 * i + 1);
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

void rotate_fp32(const RopeRows& rows, const RopeOperands<float>& operands, std::int64_t begin, std::int64_t end) {
  rotate(rows, operands, begin, end);
}
void rotate_bf16(const RopeRows& rows, const RopeOperands<std::uint16_t>& operands, std::int64_t begin,
                 std::int64_t end) {
  rotate(rows, operands, begin, end);
}

}  // namespace ridgepoint::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridgepoint::cpu {
namespace {

HWY_EXPORT(rotate_fp32);
HWY_EXPORT(rotate_bf16);

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
        dtype_(spec.inputs[0].dtype),
        count_(rows_.half == 0 ? 0 : spec.outputs[0].shape.elements() / (2 * rows_.half)) {
    store_element(dtype_, &immediate_, spec.inputs[0].immediate.value_or(0.0));
  }

  std::string_view name() const override { return rows_.inverse ? "rope_backward_vectors" : "rope_forward_vectors"; }

  void launch(const LaunchArguments& arguments) override {
    parallel_for(count_, rows_per_range(2 * rows_.half), [&](std::int64_t begin, std::int64_t end) {
      if (dtype_ == DType::bf16) {
        HWY_DYNAMIC_DISPATCH(rotate_bf16)(rows_, operands<std::uint16_t>(arguments), begin, end);
      } else {
        HWY_DYNAMIC_DISPATCH(rotate_fp32)(rows_, operands<float>(arguments), begin, end);
      }
    });
  }

 private:
  // An immediate has no memory: `immediate_` stands for every element.
  template <typename T>
  RopeOperands<T> operands(const LaunchArguments& arguments) const {
    const void* x = arguments.inputs[0] != nullptr ? arguments.inputs[0] : &immediate_;
    return {static_cast<const T*>(x), static_cast<const float*>(arguments.inputs[1]),
            static_cast<const float*>(arguments.inputs[2]), static_cast<T*>(arguments.outputs[0])};
  }

  RopeRows rows_;
  DType dtype_;
  std::int64_t count_;
  float immediate_ = 0.0F;  // holds an element of either dtype
};

}  // namespace

std::unique_ptr<Kernel> make_rope_kernel(const KernelSpec& spec) { return std::make_unique<RopeVectors>(spec); }

}  // namespace ridgepoint::cpu
#endif
