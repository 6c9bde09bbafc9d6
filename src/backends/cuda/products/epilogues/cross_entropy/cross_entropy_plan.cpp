#include "backends/cuda/products/epilogues/cross_entropy/cross_entropy_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backends/cuda/products/epilogues/cross_entropy/parameters.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

using Of = EndLaunch::Field::Of;

constexpr const char* kImage = "cross_entropy_matmul_wgmma";
// The tilings of the kernels there.
constexpr std::array<EndTiling, 4> kTilings = {
    {{128, 128, 2, 1}, {128, 160, 2, 1}, {128, 192, 1, 1}, {128, 192, 2, 1}}};
constexpr std::size_t kAlignmentBytes = 512;  // of the parts in the workspace

bool is_dense(const TensorLayout& layout) {
  return !layout.immediate && (layout.strides[0] == 1 || layout.shape[0] == 1);
}

}  // namespace

std::optional<CrossEntropyPlan> CrossEntropyPlan::of(const CrossEntropyNode& node, const KernelSpec& spec) {
  CrossEntropyPlan plan;
  plan.node_ = node;
  plan.dtype_ = spec.inputs[0].dtype;
  plan.x_row_ = line_of(spec.inputs[0], 1);
  plan.w_column_ = line_of(spec.inputs[1], 0);
  plan.logits_row_ = node.logits ? line_of(spec.outputs[*node.logits], 1) : node.vocabulary;
  if (std::max({node.tokens, node.vocabulary, node.inner}) > kLargestSize) return std::nullopt;
  if (plan.x_row_ == 0 || plan.w_column_ == 0 || plan.logits_row_ == 0) return std::nullopt;
  const bool is_dense_beside = is_dense(spec.inputs[2]) && is_dense(spec.outputs[node.losses]) &&
                               (!node.log_sum_exps || is_dense(spec.outputs[*node.log_sum_exps]));
  return is_dense_beside ? std::optional(plan) : std::nullopt;
}

std::vector<EndTiling> CrossEntropyPlan::candidates() const { return {kTilings.begin(), kTilings.end()}; }

std::string CrossEntropyPlan::key() const {
  return fmt::format("cross_entropy version {} {} {}x{}x{}{}{} rows {} {} {}", kVersion, name(dtype_), node_.tokens,
                     node_.vocabulary, node_.inner, node_.logits ? " kept" : "",
                     node_.log_sum_exps ? " with log-sum-exps" : "", x_row_, w_column_, logits_row_);
}

EndTiles CrossEntropyPlan::tiles(const EndTiling& tiling) const {
  return {.m = node_.tokens, .n = node_.vocabulary, .k = node_.inner, .rows = tiling.rows, .columns = tiling.columns};
}

std::int64_t CrossEntropyPlan::parts_of_row(const EndTiling& tiling) const {
  return ceil_divide(node_.vocabulary, std::int64_t{tiling.columns});
}

std::size_t CrossEntropyPlan::target_logits_bytes() const {
  return round_up(static_cast<std::size_t>(node_.tokens) * sizeof(float), kAlignmentBytes);
}

std::size_t CrossEntropyPlan::workspace_bytes() const {
  std::int64_t parts = 0;
  for (const EndTiling& tiling : kTilings) parts = std::max(parts, parts_of_row(tiling));
  return target_logits_bytes() + static_cast<std::size_t>(parts * node_.tokens) * sizeof(RowPart);
}

std::vector<EndLaunch> CrossEntropyPlan::launches(const EndTiling& tiling, int multiprocessors) const {
  return {product(tiling, multiprocessors), finish(tiling)};
}

EndLaunch CrossEntropyPlan::product(const EndTiling& tiling, int multiprocessors) const {
  EndLaunch launch =
      product_launch(fmt::format("fused_cross_entropy_{}_{}", tiling.to_text(), name(dtype_)), kImage,
                     blocks_of(tiles(tiling), tiling, multiprocessors),
                     LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, true, LowMatmulTiling::kElementBytes));
  launch.shape.waits_by_itself = true;
  using P = CrossEntropyMatmul;
  P parameters;
  parameters.product = divide_product(tiles(tiling), tiling, multiprocessors);
  parameters.writes_logits = node_.logits ? 1 : 0;
  launch.parameters = EndLaunch::Parameters(parameters);
  const TensorMapShape a = lines_map(dtype_, node_.inner, node_.tokens, x_row_, tiling.rows / tiling.cluster_columns);
  const TensorMapShape b =
      lines_map(dtype_, node_.inner, node_.vocabulary, w_column_, tiling.columns / tiling.cluster_rows);
  launch.fields = {
      {offsetof(P, product.a), Of::inputs, 0, 0, a},
      {offsetof(P, product.b), Of::inputs, 1, 0, b},
      {offsetof(P, targets), Of::inputs, 2, 0, std::nullopt},
      {offsetof(P, target_logits), Of::workspace, 0, 0, std::nullopt},
      {offsetof(P, parts), Of::workspace, 0, static_cast<std::int64_t>(target_logits_bytes()), std::nullopt}};
  if (!node_.logits) return launch;
  const TensorMapShape c = panels_map(dtype_, node_.vocabulary, node_.tokens, logits_row_, tiling.columns);
  launch.fields.push_back({offsetof(P, product.c), Of::results, *node_.logits, 0, c});
  return launch;
}

EndLaunch CrossEntropyPlan::finish(const EndTiling& tiling) const {
  using P = CrossEntropyFinish;
  EndLaunch launch;
  launch.image = kImage;
  launch.function = "fused_cross_entropy_finish";
  launch.shape.grid_x = static_cast<unsigned>(ceil_divide(node_.tokens, std::int64_t{P::kRows}));
  launch.shape.block_x = P::kThreads;
  P parameters;
  parameters.rows = static_cast<int>(node_.tokens);
  parameters.parts_of_row = static_cast<int>(parts_of_row(tiling));
  parameters.vocabulary = static_cast<int>(node_.vocabulary);
  launch.parameters = EndLaunch::Parameters(parameters);
  launch.fields = {
      {offsetof(P, target_logits), Of::workspace, 0, 0, std::nullopt},
      {offsetof(P, parts), Of::workspace, 0, static_cast<std::int64_t>(target_logits_bytes()), std::nullopt},
      {offsetof(P, targets), Of::inputs, 2, 0, std::nullopt},
      {offsetof(P, losses), Of::results, node_.losses, 0, std::nullopt}};
  if (node_.log_sum_exps)
    launch.fields.push_back({offsetof(P, log_sum_exps), Of::results, *node_.log_sum_exps, 0, std::nullopt});
  return launch;
}

}  // namespace ridgepoint::cuda
