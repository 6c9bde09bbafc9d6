#include "backends/cuda/products/epilogues/rope/rope_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "backends/cuda/products/epilogues/rope/parameters.h"

namespace ridgepoint::cuda {
namespace {

// The tilings of the kernels in rope_matmul_wgmma.cu.
constexpr std::array<EndTiling, 2> kRopeShapes = {{{128, 128, 1, 1}, {128, 128, 2, 1}}};

}  // namespace

std::optional<RopePlan> RopePlan::of(const RopeNode& node, const KernelSpec& spec) {
  RopePlan plan;
  plan.node_ = node;
  plan.dtype_ = spec.inputs[0].dtype;
  plan.x_row_ = line_of(spec.inputs[0], 1);
  plan.w_column_ = line_of(spec.inputs[1], 0);
  plan.result_row_ = line_of(spec.outputs[0], 1);
  const std::int64_t largest = std::max(
      {node.tokens, node.features, node.inner, spec.inputs[2].shape.elements()});  // tables have 32-bit indices
  const bool fits = plan.x_row_ > 0 && plan.w_column_ > 0 && plan.result_row_ > 0 && largest <= kLargestSize;
  return fits ? std::optional(plan) : std::nullopt;
}

// A cluster whose second tile would be empty has nothing to share.
std::vector<EndTiling> RopePlan::candidates() const {
  std::vector<EndTiling> found;
  for (const EndTiling& tiling : kRopeShapes) {
    const bool fills_cluster = node_.tokens > std::int64_t{tiling.rows} * (tiling.cluster_rows - 1) &&
                               node_.features > std::int64_t{tiling.columns} * (tiling.cluster_columns - 1);
    if (fills_cluster) found.push_back(tiling);
  }
  return found;
}

std::string RopePlan::key() const {
  return fmt::format("rope version {} {} {}x{}x{} heads {} of {} in {} rows {} {} of {}", kVersion, name(dtype_),
                     node_.tokens, node_.features, node_.inner, node_.columns / node_.head, node_.head, node_.sequence,
                     x_row_, w_column_, result_row_);
}

EndTiles RopePlan::tiles(const EndTiling& tiling) const {
  return {.m = node_.tokens, .n = node_.features, .k = node_.inner, .rows = tiling.rows, .columns = tiling.columns};
}

std::vector<EndLaunch> RopePlan::launches(const EndTiling& tiling, int multiprocessors) const {
  EndLaunch launch =
      product_launch(fmt::format("fused_rope_forward_{}_{}", tiling.to_text(), name(dtype_)), "rope_matmul_wgmma",
                     blocks_of(tiles(tiling), tiling, multiprocessors),
                     LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, true, LowMatmulTiling::kElementBytes));
  launch.shape.waits_by_itself = true;
  RopeMatmul parameters;
  parameters.product = divide_product(tiles(tiling), tiling, multiprocessors);
  parameters.sequence = Divisor(static_cast<std::uint32_t>(node_.sequence));
  parameters.head = Divisor(static_cast<std::uint32_t>(node_.head));
  parameters.columns = static_cast<int>(node_.columns);
  launch.parameters = EndLaunch::Parameters(parameters);
  launch.fields = fields(tiling);
  return {launch};
}

std::vector<EndLaunch::Field> RopePlan::fields(const EndTiling& tiling) const {
  using Of = EndLaunch::Field::Of;
  using P = RopeMatmul;
  return {{offsetof(P, product.a), Of::inputs, 0, 0,
           lines_map(dtype_, node_.inner, node_.tokens, x_row_, tiling.rows / tiling.cluster_columns)},
          {offsetof(P, product.b), Of::inputs, 1, 0,
           lines_map(dtype_, node_.inner, node_.features, w_column_, tiling.columns / tiling.cluster_rows)},
          {offsetof(P, product.c), Of::results, 0, 0,
           panels_map(dtype_, node_.features, node_.tokens, result_row_, tiling.columns)},
          {offsetof(P, cosines), Of::inputs, 2, 0, std::nullopt, true},
          {offsetof(P, sines), Of::inputs, 3, 0, std::nullopt, true}};
}

}  // namespace ridgepoint::cuda
