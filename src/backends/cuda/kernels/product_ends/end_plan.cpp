#include "backends/cuda/kernels/product_ends/end_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/driver/block_flags.h"
#include "backends/rounding.h"

namespace ridgepoint::cuda {
namespace {

int most_clusters(const EndTiling& tiling, int multiprocessors) {
  return std::min(multiprocessors, kMostBlocks) / tiling.cluster_blocks();
}

}  // namespace

std::string EndTiling::to_text() const {
  return fmt::format("{}x{}_{}x{}{}", rows, columns, cluster_rows, cluster_columns,
                     beside_kib == 0 ? "" : fmt::format("_{}k", beside_kib));
}

std::int64_t line_of(const TensorLayout& layout, std::size_t inner) {
  constexpr std::int64_t kAlignmentBytes = 16;
  const std::int64_t line = layout.strides[1 - inner];
  const bool fits = !layout.immediate && layout.strides[inner] == 1 && line >= layout.shape[static_cast<int>(inner)] &&
                    line * static_cast<std::int64_t>(size_bytes(layout.dtype)) % kAlignmentBytes == 0;
  return fits ? line : 0;
}

LowMatmul divide_product(const EndTiles& tiles, const EndTiling& tiling, int multiprocessors) {
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

int blocks_of(const EndTiles& tiles, const EndTiling& tiling, int multiprocessors) {
  const int clusters = divide_product(tiles, tiling, multiprocessors).tiles;
  return std::min(clusters, most_clusters(tiling, multiprocessors)) * tiling.cluster_blocks();
}

}  // namespace ridgepoint::cuda
