#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "backends/cuda/driver/block_flags.h"
#include "backends/cuda/kernels/low_matmul/swiglu_matmul.h"
#include "backends/rounding.h"

namespace ridgepoint::cuda {
namespace {

// The tilings of the kernels in swiglu_matmul_wgmma.cu.
constexpr std::array<SwigluTiling, 2> kSwigluShapes = {{{128, 128, 1, 1}, {128, 128, 2, 1}}};
constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
constexpr std::int64_t kVectorElements = 8;
constexpr std::uint32_t kPanelLines = 64;  // lines, and elements of a line

bool has_rows(const TensorLayout& layout) {
  return !layout.immediate && layout.strides[1] == 1 && layout.strides[0] >= layout.shape[1] &&
         layout.strides[0] % kVectorElements == 0;
}

// Forward the columns of w are contiguous, backward its rows.
std::int64_t line_of(const TensorLayout& layout, bool by_rows) {
  const std::size_t inner = by_rows ? 1 : 0;
  const bool fits = !layout.immediate && layout.strides[inner] == 1 && layout.strides[1 - inner] > 0 &&
                    layout.strides[1 - inner] % kVectorElements == 0;
  return fits ? layout.strides[1 - inner] : 0;
}

}  // namespace

std::string SwigluTiling::to_text() const {
  return fmt::format("{}x{}_{}x{}", rows, columns, cluster_rows, cluster_columns);
}

std::optional<SwigluPlan> SwigluPlan::of(const SwigluNode& node, const KernelSpec& spec) {
  SwigluPlan plan;
  plan.node_ = node;
  plan.dtype_ = spec.inputs[0].dtype;
  plan.x_row_ = spec.inputs[0].strides[0];
  plan.w_line_ = line_of(spec.inputs[1], node.is_backward);
  if (node.tokens > kMostTokens || !has_rows(spec.inputs[0]) || plan.w_line_ == 0) return std::nullopt;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    if (i >= 2 && !has_rows(spec.inputs[i])) return std::nullopt;
    plan.input_rows_.push_back(spec.inputs[i].strides[0]);
  }
  for (const TensorLayout& layout : spec.outputs) {
    if (!has_rows(layout)) return std::nullopt;
    plan.result_rows_.push_back(layout.strides[0]);
  }
  return plan;
}

std::vector<SwigluTiling> SwigluPlan::candidates() const { return {kSwigluShapes.begin(), kSwigluShapes.end()}; }

std::string SwigluPlan::function_name(const SwigluTiling& tiling) const {
  return fmt::format("fused_swiglu_{}_{}_{}", node_.is_backward ? "backward" : "forward", tiling.to_text(),
                     name(dtype_));
}

std::string SwigluPlan::key() const {
  return fmt::format("swiglu {} version {} {} {}x{}x{}{} rows {} {} of {} and {}",
                     node_.is_backward ? "backward" : "forward", kVersion, name(dtype_), node_.tokens, node_.features,
                     node_.inner, node_.halves ? " kept" : "", x_row_, w_line_, fmt::join(input_rows_, ","),
                     fmt::join(result_rows_, ","));
}

LowMatmul SwigluPlan::parameters(const SwigluTiling& tiling, int multiprocessors) const {
  LowMatmul product;
  const std::int64_t columns = node_.is_backward ? tiling.columns : tiling.columns / 2;
  product.m = static_cast<int>(node_.tokens);
  product.n = static_cast<int>(node_.features);
  product.part_columns = static_cast<int>(node_.features);
  product.steps = static_cast<int>(ceil_divide(node_.inner, LowMatmulTiling::kStepK));
  product.tiles_m = static_cast<int>(ceil_divide(node_.tokens, std::int64_t{tiling.rows} * tiling.cluster_rows));
  product.tiles_n = static_cast<int>(ceil_divide(node_.features, columns * tiling.cluster_columns));
  product.tiles = product.tiles_m * product.tiles_n;
  const int clusters = std::min(product.tiles, std::min(multiprocessors, kMostBlocks) / tiling.cluster_blocks());
  product.whole_rounds = static_cast<int>(ceil_divide(product.tiles, clusters));
  return product;
}

int SwigluPlan::blocks(const SwigluTiling& tiling, int multiprocessors) const {
  const int most = std::min(multiprocessors, kMostBlocks) / tiling.cluster_blocks();
  return std::min(parameters(tiling, multiprocessors).tiles, most) * tiling.cluster_blocks();
}

int SwigluPlan::shared_bytes(const SwigluTiling& tiling) const {
  return LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, !node_.is_backward, LowMatmulTiling::kElementBytes,
                                       node_.is_backward ? 4 : 2);
}

std::vector<SwigluPlan::Mapped> SwigluPlan::maps(const SwigluTiling& tiling) const {
  const auto map = [&](std::int64_t columns, std::int64_t rows, std::int64_t leading, int lines) {
    return TensorMapShape{.dtype = dtype_,
                          .sizes = {columns, rows, 1, 1},
                          .strides = {leading, 0, 0},
                          .box = {kPanelLines, static_cast<std::uint32_t>(lines), 1, 1}};
  };
  const std::int64_t tokens = node_.tokens;
  const std::int64_t features = node_.features;
  const auto input = [&](std::size_t i) { return Mapped{map(features, tokens, input_rows_[i], 64), false, i}; };
  const auto result = [&](std::size_t i, std::int64_t offset = 0) {
    return Mapped{map(features, tokens, result_rows_[i], 64), true, i, offset};
  };
  const Mapped a{map(node_.inner, tokens, x_row_, tiling.rows / tiling.cluster_columns), false, 0};
  if (node_.is_backward) {
    const Mapped b{map(features, node_.inner, w_line_, LowMatmulTiling::kStepK / tiling.cluster_rows), false, 1};
    return {a, b, result(node_.gate_gradient), input(node_.gate), input(node_.up), result(node_.up_gradient)};
  }
  const Mapped b{map(node_.inner, 2 * features, w_line_, tiling.columns / std::max(tiling.cluster_rows, 2)), false, 1};
  const Mapped hidden = result(node_.hidden);
  if (!node_.halves) return {a, b, hidden, hidden, hidden};
  return {a, b, result(*node_.halves), result(*node_.halves, features), hidden};
}

}  // namespace ridgepoint::cuda
