#include "backends/cuda/products/epilogues/residual/residual_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "backends/cuda/driver/block_flags.h"
#include "backends/cuda/products/epilogues/residual/parameters.h"
#include "backends/cuda/products/epilogues/rows_beside.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

using Of = EndLaunch::Field::Of;

// The tilings of the kernels in residual_matmul_wgmma.cu and residual_backward_wgmma.cu.
constexpr std::array<EndTiling, 3> kForwardShapes = {
    {{128, 128, 2, 1, 32}, {128, 160, 2, 1, 24}, {128, 160, 2, 1, 56}}};
constexpr std::array<EndTiling, 3> kBackwardShapes = {
    {{128, 128, 2, 1, 32}, {128, 128, 2, 1, 56}, {128, 160, 2, 1, 48}}};
// Blocks count the rows of tiles, and once themselves, in the words of block_flags().
constexpr bool has_counts_for(const EndTiling& tiling) {
  return ResidualPlan::kMostTokens <= std::int64_t{RowsBeside::kMostCounts} * tiling.rows;
}
static_assert(std::ranges::all_of(kForwardShapes, has_counts_for));
static_assert(std::ranges::all_of(kBackwardShapes, has_counts_for));
static_assert(RowsBeside::kMostCounts < 2 * kMostBlocks);
constexpr const char* kBackwardImage = "residual_backward_wgmma";
constexpr int kBytesOfKib = 1024;
constexpr std::size_t kAlignmentBytes = 512;

bool is_matrix(const TensorLayout& layout, std::int64_t columns) {
  return layout.shape.rank() == 2 && layout.shape[1] == columns;
}

// Rows of matrices; 0 for other tensors, which must be dense. False if one lies otherwise.
bool add_rows(std::span<const TensorLayout> layouts, std::int64_t columns, std::vector<std::int64_t>& rows) {
  for (const TensorLayout& layout : layouts) {
    if (is_matrix(layout, columns) ? line_of(layout, 1) == 0 : layout.immediate || !layout.is_dense()) return false;
    rows.push_back(is_matrix(layout, columns) ? layout.strides[0] : 0);
  }
  return true;
}

}  // namespace

std::optional<ResidualPlan> ResidualPlan::of(const ResidualNode& node, const KernelSpec& spec) {
  ResidualPlan plan;
  plan.node_ = node;
  plan.dtype_ = spec.inputs[0].dtype;
  plan.a_row_ = line_of(spec.inputs[0], 1);
  plan.b_line_ = line_of(spec.inputs[1], node.is_backward ? 1 : 0);
  if (node.inner > kLargestSize || plan.a_row_ == 0 || plan.b_line_ == 0) return std::nullopt;
  plan.input_rows_ = {0, 0};
  if (!add_rows(spec.inputs.subspan(2), node.columns, plan.input_rows_)) return std::nullopt;
  if (!add_rows(spec.outputs, node.columns, plan.result_rows_)) return std::nullopt;
  return plan;
}

// Those whose shared memory has the operands of a row, and g.
std::vector<EndTiling> ResidualPlan::candidates() const {
  const std::int64_t matrices = node_.is_backward ? 2 : 1;
  const std::int64_t bytes =
      node_.columns * ((matrices + 1) * static_cast<std::int64_t>(sizeof(float)) + LowMatmulTiling::kElementBytes);
  std::vector<EndTiling> found;
  for (const EndTiling& shape : node_.is_backward ? kBackwardShapes : kForwardShapes) {
    if (bytes <= shape.beside_kib * kBytesOfKib) found.push_back(shape);
  }
  return found;
}

std::string ResidualPlan::key() const {
  return fmt::format("residual {} version {} {} {}x{}x{} rows {} {} of {} and {}",
                     node_.is_backward ? "backward" : "norm", kVersion, name(dtype_), node_.tokens, node_.columns,
                     node_.inner, a_row_, b_line_, fmt::join(input_rows_, ","), fmt::join(result_rows_, ","));
}

std::size_t ResidualPlan::product_bytes() const {
  return round_up(static_cast<std::size_t>(node_.tokens * node_.columns) * size_bytes(dtype_), kAlignmentBytes);
}

std::size_t ResidualPlan::workspace_bytes() const {
  if (!node_.is_backward) return product_bytes();
  return product_bytes() + static_cast<std::size_t>(kMostBlocks * node_.columns) * sizeof(float);
}

EndTiles ResidualPlan::tiles(const EndTiling& tiling) const {
  return {.m = node_.tokens, .n = node_.columns, .k = node_.inner, .rows = tiling.rows, .columns = tiling.columns};
}

std::vector<EndLaunch> ResidualPlan::launches(const EndTiling& tiling, int multiprocessors) const {
  LowMatmul product = divide_product(tiles(tiling), tiling, multiprocessors);
  product.leading = node_.columns;
  const int blocks = blocks_of(tiles(tiling), tiling, multiprocessors);
  const std::string_view end = node_.is_backward ? "backward" : "norm";
  EndLaunch main =
      product_launch(fmt::format("fused_residual_{}_{}_{}", end, tiling.to_text(), name(dtype_)),
                     node_.is_backward ? kBackwardImage : "residual_matmul_wgmma", blocks,
                     LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, !node_.is_backward,
                                                   LowMatmulTiling::kElementBytes, 2, tiling.beside_kib * kBytesOfKib));
  main.is_cooperative = true;
  node_.is_backward ? set_backward(main, product) : set_forward(main, product);
  const std::vector<EndLaunch::Field> maps = product_fields(tiling);
  main.fields.insert(main.fields.end(), maps.begin(), maps.end());
  if (!node_.is_backward) return {main};
  return {main, columns(blocks)};
}

void ResidualPlan::set_forward(EndLaunch& launch, const LowMatmul& product) const {
  using P = ResidualMatmul;
  P p;
  p.product = product;
  p.product_row = node_.columns;
  p.x_row = input_rows_[node_.x];
  p.sum_row = result_rows_[node_.sum];
  p.normed_row = result_rows_[node_.normed];
  p.inverse_columns = static_cast<float>(1.0 / static_cast<double>(node_.columns));
  p.epsilon = static_cast<float>(node_.epsilon);
  launch.parameters = EndLaunch::Parameters(p);
  launch.fields = {{offsetof(P, products), Of::workspace, 0, 0, {}},
                   {offsetof(P, x), Of::inputs, node_.x, 0, {}, true},
                   {offsetof(P, g), Of::inputs, node_.g, 0, {}, true},
                   {offsetof(P, sum), Of::results, node_.sum, 0, {}, true},
                   {offsetof(P, normed), Of::results, node_.normed, 0, {}, true},
                   {offsetof(P, counts), Of::block_flags, 0, 0, {}}};
  if (node_.r) launch.fields.push_back({offsetof(P, reciprocal), Of::results, *node_.r, 0, {}});
}

void ResidualPlan::set_backward(EndLaunch& launch, const LowMatmul& product) const {
  using P = ResidualBackwardMatmul;
  P p;
  p.product = product;
  p.d_row = node_.columns;
  p.sum_row = input_rows_[node_.sum_input];
  p.residual_row = input_rows_[node_.residual];
  p.gradient_row = result_rows_[node_.gradient];
  p.low_gradient_row = node_.low_gradient ? result_rows_[*node_.low_gradient] : 0;
  p.inverse_columns = static_cast<float>(1.0 / static_cast<double>(node_.columns));
  launch.parameters = EndLaunch::Parameters(p);
  launch.fields = {{offsetof(P, d), Of::workspace, 0, 0, {}},
                   {offsetof(P, sum), Of::inputs, node_.sum_input, 0, {}, true},
                   {offsetof(P, residual), Of::inputs, node_.residual, 0, {}, true},
                   {offsetof(P, g), Of::inputs, node_.g, 0, {}, true},
                   {offsetof(P, reciprocal), Of::inputs, node_.r_input, 0, {}},
                   {offsetof(P, gradient), Of::results, node_.gradient, 0, {}, true},
                   {offsetof(P, parts_of_g), Of::workspace, 0, static_cast<std::int64_t>(product_bytes()), {}},
                   {offsetof(P, counts), Of::block_flags, 0, 0, {}}};
  if (node_.low_gradient)
    launch.fields.push_back({offsetof(P, low_gradient), Of::results, *node_.low_gradient, 0, {}, true});
}

EndLaunch ResidualPlan::columns(int blocks) const {
  constexpr int kColumnsOfBlock = 32;
  ColumnSums p;
  p.rows = blocks;
  p.columns = static_cast<int>(node_.columns);
  EndLaunch launch;
  launch.image = kBackwardImage;
  launch.function = "fused_residual_backward_columns";
  launch.shape.grid_x = static_cast<unsigned>(ceil_divide(node_.columns, kColumnsOfBlock));
  launch.shape.block_x = kColumnsOfBlock;
  launch.shape.block_y = 8;
  launch.shape.waits_by_itself = true;
  launch.parameters = EndLaunch::Parameters(p);
  launch.fields = {{offsetof(ColumnSums, parts), Of::workspace, 0, static_cast<std::int64_t>(product_bytes()), {}},
                   {offsetof(ColumnSums, sums), Of::results, node_.of_g, 0, {}}};
  return launch;
}

// a, b and c, which both kernels have at the same places.
std::vector<EndLaunch::Field> ResidualPlan::product_fields(const EndTiling& tiling) const {
  const TensorMapShape a = lines_map(dtype_, node_.inner, node_.tokens, a_row_, tiling.rows / tiling.cluster_columns);
  const TensorMapShape b =
      node_.is_backward
          ? lines_map(dtype_, node_.columns, node_.inner, b_line_, LowMatmulTiling::kStepK / tiling.cluster_rows)
          : lines_map(dtype_, node_.inner, node_.columns, b_line_, tiling.columns / tiling.cluster_rows);
  const TensorMapShape c = panels_map(dtype_, node_.columns, node_.tokens, node_.columns, tiling.columns);
  static_assert(offsetof(ResidualMatmul, product) == 0 && offsetof(ResidualBackwardMatmul, product) == 0);
  return {{offsetof(LowMatmul, a), Of::inputs, 0, 0, a},
          {offsetof(LowMatmul, b), Of::inputs, 1, 0, b},
          {offsetof(LowMatmul, c), Of::workspace, 0, 0, c}};
}

}  // namespace ridgepoint::cuda
