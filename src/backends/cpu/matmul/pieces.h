// Splits a matrix product into independent products of nearly equal size, one for each thread.
#pragma once

#include <vector>

#include "runtime/device/matmul_problem.h"

namespace ridgepoint::cpu {

// One of these products: it has the strides of the whole one, and its matrices begin at these offsets, in elements.
struct MatmulPiece {
  MatmulProblem problem;
  std::int64_t a_offset = 0;
  std::int64_t b_offset = 0;
  std::int64_t c_offset = 0;
};

// Splits into about `count` pieces, first along batch dimensions that divide evenly, then along rows and columns so
// that the pieces read as little of a and b twice as possible. A piece has at least `least_flops`.
std::vector<MatmulPiece> split_into_pieces(const MatmulProblem& problem, int count, std::int64_t least_flops);

// The grid with `tiles` tiles of a rows x columns matrix in which a tile has the smallest perimeter.
struct MatmulGrid {
  std::int64_t row_tiles = 1;
  std::int64_t column_tiles = 1;
};
MatmulGrid choose_grid(std::int64_t rows, std::int64_t columns, std::int64_t tiles);

// The range of tile number `tile` of `tiles` in [0, size): its ends are multiples of `step`, or `size`.
struct MatmulRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
MatmulRange tile_range(std::int64_t size, std::int64_t step, std::int64_t tiles, std::int64_t tile);

// Tile edges are multiples of the tile of oneDNN's AVX-512 inner kernels.
inline constexpr std::int64_t kMatmulRowStep = 16;
inline constexpr std::int64_t kMatmulColumnStep = 48;
// A smaller tile is not worth the time to wake a thread.
inline constexpr std::int64_t kMinTileFlops = 1 << 20;

}  // namespace ridgepoint::cpu
