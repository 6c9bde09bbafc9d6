#include "backends/cuda/products/epilogues/epilogue_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/cuda/driver/kernel_launch.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::uint32_t kPanelElements = 64;  // of a line of an operand
constexpr int kPanelRows = 64;

// At least one, which a GPU without room for it refuses.
int most_clusters(const EpilogueTiling& tiling, int multiprocessors) {
  return std::max(std::min(multiprocessors, kMostBlocks) / tiling.cluster_blocks(), 1);
}

}  // namespace

std::string EpilogueTiling::to_text() const {
  return fmt::format("{}x{}_{}x{}{}", rows, columns, cluster_rows, cluster_columns,
                     beside_kib == 0 ? "" : fmt::format("_{}k", beside_kib));
}

const void* address_of(const EpilogueLaunch::Field& field, const LaunchArguments& arguments, const void* block_flags) {
  using Of = EpilogueLaunch::Field::Of;
  const void* base = field.of == Of::inputs      ? arguments.inputs[field.index]
                     : field.of == Of::results   ? arguments.outputs[field.index]
                     : field.of == Of::workspace ? arguments.workspace
                                                 : block_flags;
  return static_cast<const std::byte*>(base) + field.offset_bytes;
}

bool are_aligned(const EpilogueLaunch& launch, const LaunchArguments& arguments) {
  return std::ranges::all_of(launch.fields, [&](const EpilogueLaunch::Field& field) {
    return (!field.map && !field.in_vectors) || are_vector_aligned({address_of(field, arguments, nullptr)});
  });
}

std::int64_t line_of(const TensorLayout& layout, std::size_t inner) {
  constexpr std::int64_t kAlignmentBytes = 16;
  const std::int64_t line = layout.strides[1 - inner];
  const bool fits = !layout.immediate && layout.strides[inner] == 1 && line >= layout.shape[static_cast<int>(inner)] &&
                    line * static_cast<std::int64_t>(size_bytes(layout.dtype)) % kAlignmentBytes == 0;
  return fits ? line : 0;
}

TensorMapShape lines_map(DType dtype, std::int64_t elements, std::int64_t lines, std::int64_t line, int box_lines) {
  return {.dtype = dtype,
          .sizes = {elements, lines, 1, 1},
          .strides = {line, 0, 0},
          .box = {kPanelElements, static_cast<std::uint32_t>(box_lines), 1, 1}};
}

TensorMapShape panels_map(DType dtype, std::int64_t columns, std::int64_t rows, std::int64_t row, int columns_of_tile) {
  TensorMapShape map = lines_map(dtype, columns, rows, row, kPanelRows);
  map.line_bytes = LowMatmulTiling::line_bytes(columns_of_tile, LowMatmulTiling::kElementBytes);
  map.box[0] = static_cast<std::uint32_t>(map.line_bytes / LowMatmulTiling::kElementBytes);
  return map;
}

std::optional<ProductOperands> ProductOperands::of(const MatrixProduct& product, bool has_rows_of_b,
                                                   const KernelSpec& spec) {
  const ProductOperands operands{.product = product,
                                 .has_rows_of_b = has_rows_of_b,
                                 .a_row = line_of(spec.inputs[0], 1),
                                 .b_line = line_of(spec.inputs[1], has_rows_of_b ? 1 : 0)};
  const bool fits =
      operands.a_row > 0 && operands.b_line > 0 && std::max({product.m, product.n, product.k}) <= kLargestSize;
  return fits ? std::optional(operands) : std::nullopt;
}

TensorMapShape ProductOperands::a_map(const EpilogueTiling& tiling) const {
  return lines_map(product.dtype, product.k, product.m, a_row, tiling.rows / tiling.cluster_columns);
}

TensorMapShape ProductOperands::b_map(const EpilogueTiling& tiling, int least_boxes) const {
  if (has_rows_of_b)
    return lines_map(product.dtype, product.n, product.k, b_line, LowMatmulTiling::kStepK / tiling.cluster_rows);
  return lines_map(product.dtype, product.k, product.n, b_line,
                   tiling.columns / std::max(tiling.cluster_rows, least_boxes));
}

bool are_whole_vectors(std::initializer_list<std::int64_t> elements) {
  constexpr std::int64_t kVector = 8;
  return std::ranges::all_of(elements, [](std::int64_t count) { return count > 0 && count % kVector == 0; });
}

LowMatmul divide_product(const EpilogueTiles& tiles, const EpilogueTiling& tiling, int multiprocessors) {
  LowMatmul product;
  product.m = static_cast<int>(tiles.m);
  product.n = static_cast<int>(tiles.n);
  product.part_columns = static_cast<int>(tiles.n);
  product.steps = static_cast<int>(ceil_divide(tiles.k, LowMatmulTiling::kStepK));
  product.tiles_m = static_cast<int>(ceil_divide(tiles.m, std::int64_t{tiles.rows} * tiling.cluster_rows));
  product.tiles_n = static_cast<int>(ceil_divide(tiles.n, std::int64_t{tiles.columns} * tiling.cluster_columns));
  product.tiles = product.tiles_m * product.tiles_n;
  const int clusters = std::min(product.tiles, most_clusters(tiling, multiprocessors));
  product.whole_rounds = static_cast<int>(ceil_divide(product.tiles, clusters));
  return product;
}

int blocks_of(const EpilogueTiles& tiles, const EpilogueTiling& tiling, int multiprocessors) {
  const int clusters = divide_product(tiles, tiling, multiprocessors).tiles;
  return std::min(clusters, most_clusters(tiling, multiprocessors)) * tiling.cluster_blocks();
}

EpilogueLaunch product_launch(std::string function, const char* image, int blocks, int shared_bytes) {
  EpilogueLaunch launch;
  launch.image = image;
  launch.function = std::move(function);
  launch.shape.grid_x = static_cast<unsigned>(blocks);
  launch.shape.block_x = LowMatmulTiling::kThreads;
  launch.shape.shared_bytes = static_cast<unsigned>(shared_bytes);
  return launch;
}

}  // namespace ridgepoint::cuda
