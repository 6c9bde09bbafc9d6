// A matrix product cut into independent products of nearly equal size, for threads to share.
#pragma once

#include <vector>

#include "runtime/matmul_problem.h"

namespace ridgepoint::cpu {

// The product [begin, end) along every dimension of the whole one: its strides are the whole one's, and its matrices
// begin so many elements after them.
struct MatmulPiece {
  MatmulProblem problem;
  std::int64_t a_offset = 0;
  std::int64_t b_offset = 0;
  std::int64_t c_offset = 0;
};

// About `parts` pieces: batch dimensions are cut where that is even, what is left over cuts rows and columns, so that
// the pieces read as little of a and b twice as can be. Fewer pieces where one would be under `least_flops`.
std::vector<MatmulPiece> cut_into_pieces(const MatmulProblem& problem, int parts, std::int64_t least_flops);

// How a matrix of rows x columns is cut into rows * columns = parts tiles with the smallest half perimeter.
struct MatmulGrid {
  std::int64_t row_tiles = 1;
  std::int64_t column_tiles = 1;
};
MatmulGrid choose_grid(std::int64_t rows, std::int64_t columns, std::int64_t parts);

// Tile number `tile` of `tiles` in [0, size), whose ends are multiples of `step`; an end past the size is the size.
struct MatmulRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
MatmulRange tile_range(std::int64_t size, std::int64_t step, std::int64_t tiles, std::int64_t tile);

// Tile edges are multiples of what the AVX-512 inner kernels take at a time.
inline constexpr std::int64_t kMatmulRowStep = 16;
inline constexpr std::int64_t kMatmulColumnStep = 48;
// Below this a tile is not worth waking a thread for.
inline constexpr std::int64_t kMinTileFlops = 1 << 20;

}  // namespace ridgepoint::cpu
