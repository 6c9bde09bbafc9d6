#include "backends/cuda/products/epilogues/swiglu/swiglu_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "backends/cuda/products/epilogues/swiglu/parameters.h"

namespace ridgepoint::cuda {
namespace {

// The tilings of the kernels in swiglu_matmul_wgmma.cu.
constexpr std::array<EndTiling, 2> kSwigluShapes = {{{128, 128, 1, 1}, {128, 128, 2, 1}}};
constexpr int kPanelLines = 64;

}  // namespace

std::optional<SwigluPlan> SwigluPlan::of(const SwigluNode& node, const KernelSpec& spec) {
  SwigluPlan plan;
  plan.node_ = node;
  plan.dtype_ = spec.inputs[0].dtype;
  plan.x_row_ = line_of(spec.inputs[0], 1);
  plan.w_line_ = line_of(spec.inputs[1], node.is_backward ? 1 : 0);  // forward the columns of w are contiguous
  const std::int64_t columns = node.is_backward ? node.features : 2 * node.features;
  if (std::max({node.tokens, columns, node.inner}) > kLargestSize) return std::nullopt;
  if (plan.x_row_ == 0 || plan.w_line_ == 0) return std::nullopt;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    if (i >= 2 && line_of(spec.inputs[i], 1) == 0) return std::nullopt;
    plan.input_rows_.push_back(spec.inputs[i].strides[0]);
  }
  for (const TensorLayout& layout : spec.outputs) {
    if (line_of(layout, 1) == 0) return std::nullopt;
    plan.result_rows_.push_back(layout.strides[0]);
  }
  return plan;
}

std::vector<EndTiling> SwigluPlan::candidates() const { return {kSwigluShapes.begin(), kSwigluShapes.end()}; }

std::string SwigluPlan::function_name(const EndTiling& tiling) const {
  return fmt::format("fused_swiglu_{}_{}_{}", node_.is_backward ? "backward" : "forward", tiling.to_text(),
                     name(dtype_));
}

std::string SwigluPlan::key() const {
  return fmt::format("swiglu {} version {} {} {}x{}x{}{} rows {} {} of {} and {}",
                     node_.is_backward ? "backward" : "forward", kVersion, name(dtype_), node_.tokens, node_.features,
                     node_.inner, node_.halves ? " kept" : "", x_row_, w_line_, fmt::join(input_rows_, ","),
                     fmt::join(result_rows_, ","));
}

EndTiles SwigluPlan::tiles(const EndTiling& tiling) const {
  return {.m = node_.tokens,
          .n = node_.features,
          .k = node_.inner,
          .rows = tiling.rows,
          .columns = node_.is_backward ? tiling.columns : tiling.columns / 2};
}

int SwigluPlan::shared_bytes(const EndTiling& tiling) const {
  return LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, !node_.is_backward, LowMatmulTiling::kElementBytes,
                                       node_.is_backward ? 4 : 2);
}

std::vector<EndLaunch> SwigluPlan::launches(const EndTiling& tiling, int multiprocessors) const {
  EndLaunch launch = product_launch(function_name(tiling), "swiglu_matmul_wgmma",
                                    blocks_of(tiles(tiling), tiling, multiprocessors), shared_bytes(tiling));
  launch.shape.waits_by_itself = true;
  const LowMatmul product = divide_product(tiles(tiling), tiling, multiprocessors);
  if (node_.is_backward) {
    SwigluBackwardMatmul parameters;
    parameters.product = product;
    launch.parameters = EndLaunch::Parameters(parameters);
  } else {
    SwigluMatmul parameters;
    parameters.product = product;
    parameters.keeps_halves = node_.halves ? 1 : 0;
    launch.parameters = EndLaunch::Parameters(parameters);
  }
  launch.fields = fields(tiling);
  return {launch};
}

std::vector<EndLaunch::Field> SwigluPlan::fields(const EndTiling& tiling) const {
  using Of = EndLaunch::Field::Of;
  const auto map = [&](std::int64_t columns, std::int64_t rows, std::int64_t leading, int lines) {
    return lines_map(dtype_, columns, rows, leading, lines);
  };
  const std::int64_t tokens = node_.tokens;
  const std::int64_t features = node_.features;
  const auto input = [&](std::size_t place, std::size_t i) {
    return EndLaunch::Field{place, Of::inputs, i, 0, map(features, tokens, input_rows_[i], kPanelLines)};
  };
  const auto result = [&](std::size_t place, std::size_t i, std::int64_t column = 0) {
    return EndLaunch::Field{place, Of::results, i, column * LowMatmulTiling::kElementBytes,
                            map(features, tokens, result_rows_[i], kPanelLines)};
  };
  const auto operand = [](std::size_t place, std::size_t i, const TensorMapShape& of) {
    return EndLaunch::Field{place, Of::inputs, i, 0, of};
  };
  const TensorMapShape a = map(node_.inner, tokens, x_row_, tiling.rows / tiling.cluster_columns);
  if (node_.is_backward) {
    using P = SwigluBackwardMatmul;
    const TensorMapShape b = map(features, node_.inner, w_line_, LowMatmulTiling::kStepK / tiling.cluster_rows);
    return {operand(offsetof(P, product.a), 0, a),
            operand(offsetof(P, product.b), 1, b),
            result(offsetof(P, product.c), node_.gate_gradient),
            input(offsetof(P, gate), node_.gate),
            input(offsetof(P, up), node_.up),
            result(offsetof(P, up_gradient), node_.up_gradient)};
  }
  using P = SwigluMatmul;
  const TensorMapShape b = map(node_.inner, 2 * features, w_line_, tiling.columns / std::max(tiling.cluster_rows, 2));
  // Without halves to keep, their maps are read ahead, but not used.
  const std::size_t gate = node_.halves.value_or(node_.hidden);
  return {operand(offsetof(P, product.a), 0, a), operand(offsetof(P, product.b), 1, b),
          result(offsetof(P, product.c), gate), result(offsetof(P, up), gate, node_.halves ? features : 0),
          result(offsetof(P, hidden), node_.hidden)};
}

}  // namespace ridgepoint::cuda
