// What the host sides of the attention kernels for Hopper share.
#pragma once

#include <algorithm>
#include <numbers>

#include "backends/cuda/attention/common/host.h"
#include "backends/cuda/attention/wgmma/hopper_division.h"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/driver/tensor_map.h"

namespace ridgepoint::cuda {

inline constexpr int kPanelColumns = 64;

// An operand and its map, which is made again when its address changes; the context must be current then.
class MappedOperand {
 public:
  MappedOperand() = default;
  // Boxes have `rows` rows of 64 columns.
  MappedOperand(const TensorLayout& layout, int rows, Divisor group = {}) : group_(group) {
    const RowStrides strides = row_strides(layout).value();
    const Shape& shape = layout.shape;
    const std::int64_t inner = shape.rank() > 2 ? shape[-3] : 1;
    std::int64_t outer = 1;
    for (int axis = 0; axis < shape.rank() - 3; ++axis) outer *= shape[axis];
    repeats_inner_ = strides.inner == 0;
    repeats_outer_ = strides.outer == 0;
    shape_ = {.dtype = layout.dtype,
              .sizes = {shape[-1], shape[-2], repeats_inner_ ? 1 : inner, repeats_outer_ ? 1 : outer},
              .strides = {strides.row, strides.inner, strides.outer},
              .box = {kPanelColumns, static_cast<std::uint32_t>(rows), 1, 1}};
  }

  bool has_map() const { return has_tensor_map(shape_); }

  void map(const void* data, AttentionMap& to) {
    if (data == data_) return;
    to.map = make_tensor_map(shape_, data);
    to.group = group_;
    to.inner = repeats_inner_ ? 0 : 1;
    to.outer = repeats_outer_ ? 0 : 1;
    data_ = data;
  }

 private:
  TensorMapShape shape_;
  Divisor group_;
  bool repeats_inner_ = false, repeats_outer_ = false;
  const void* data_ = nullptr;
};

// A kernel with a window has no test for none.
inline int window_or_longest(int window, const AttentionSizes& sizes) {
  return window > 0 ? window : static_cast<int>(std::max(sizes.queries, sizes.keys));
}

// 2 log2(e) scale / cap, so that tanh(scale s / cap) = 1 - 2 / (1 + 2^(s times this)).
inline float tanh_scale(float scale, float soft_cap) {
  return soft_cap > 0 ? static_cast<float>(2 * std::numbers::log2e * scale / soft_cap) : 0;
}

inline HopperProblem problem_of(const Shape& q, const Shape& k, const Node& node) {
  const AttentionSizes sizes = sizes_of(q, k);
  HopperProblem problem{.matrices = sizes.batch, .groups = sizes.batch, .queries = sizes.queries, .keys = sizes.keys};
  problem.causal = attention_form(node.attributes).causal;
  if (sums_key_gradients(node)) problem.groups = sizes.batch / heads_per_key_head(q, k);
  return problem;
}

inline constexpr int kPieceColumns = 32;  // of what one block of a last kernel writes

}  // namespace ridgepoint::cuda
