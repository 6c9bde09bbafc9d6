#include "backends/cpu/matmul/pieces.h"

#include <algorithm>
#include <numeric>

namespace ridgepoint::cpu {
namespace {

using BatchRanges = std::array<MatmulRange, kMaxBatchRank>;

StridedMatrix with_size(StridedMatrix matrix, std::int64_t rows, std::int64_t columns) {
  matrix.rows = rows;
  matrix.columns = columns;
  return matrix;
}

std::int64_t offset_of(const StridedMatrix& matrix, const BatchRanges& batch, std::int64_t row, std::int64_t column) {
  std::int64_t offset = row * matrix.row_stride + column * matrix.column_stride;
  for (std::size_t axis = 0; axis < batch.size(); ++axis) offset += batch[axis].begin * matrix.batch_strides[axis];
  return offset;
}

// Drops batch dimensions that have size 1 in the piece.
void set_batch(MatmulProblem& piece, const BatchRanges& ranges, std::size_t rank) {
  piece.batch.clear();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size = ranges[axis].end - ranges[axis].begin;
    if (size == 1) continue;
    for (StridedMatrix* matrix : {&piece.a, &piece.b, &piece.c})
      matrix->batch_strides[piece.batch.size()] = matrix->batch_strides[axis];
    piece.batch.push_back(size);
  }
}

MatmulPiece make_piece(const MatmulProblem& whole, const BatchRanges& batch, MatmulRange rows, MatmulRange columns) {
  MatmulPiece piece{.problem = whole};
  piece.a_offset = offset_of(whole.a, batch, rows.begin, 0);
  piece.b_offset = offset_of(whole.b, batch, 0, columns.begin);
  piece.c_offset = offset_of(whole.c, batch, rows.begin, columns.begin);
  piece.problem.a = with_size(whole.a, rows.end - rows.begin, whole.a.columns);
  piece.problem.b = with_size(whole.b, whole.b.rows, columns.end - columns.begin);
  piece.problem.c = with_size(whole.c, rows.end - rows.begin, columns.end - columns.begin);
  set_batch(piece.problem, batch, whole.batch.size());
  return piece;
}

}  // namespace

MatmulGrid choose_grid(std::int64_t rows, std::int64_t columns, std::int64_t parts) {
  MatmulGrid best;
  std::int64_t smallest = INT64_MAX;
  for (std::int64_t row_tiles = 1; row_tiles <= parts; ++row_tiles) {
    if (parts % row_tiles != 0) continue;
    const std::int64_t column_tiles = parts / row_tiles;
    const std::int64_t perimeter = rows / row_tiles + columns / column_tiles;
    // Among equals the grid with fewer column tiles wins, because its rows of b and c are longer.
    if (perimeter > smallest) continue;
    smallest = perimeter;
    best = {row_tiles, column_tiles};
  }
  return best;
}

MatmulRange tile_range(std::int64_t size, std::int64_t step, std::int64_t tiles, std::int64_t tile) {
  const std::int64_t steps = (size + step - 1) / step;
  return {std::min(steps * tile / tiles * step, size), std::min(steps * (tile + 1) / tiles * step, size)};
}

std::vector<MatmulPiece> split_into_pieces(const MatmulProblem& problem, int parts, std::int64_t least_flops) {
  std::int64_t remaining = std::clamp<std::int64_t>(problem.flops() / least_flops, 1, parts);
  std::array<std::int64_t, kMaxBatchRank> batch_pieces{};
  batch_pieces.fill(1);
  std::int64_t batches = 1;
  for (std::size_t axis = 0; axis < problem.batch.size(); ++axis) {
    batch_pieces[axis] = std::gcd(remaining, problem.batch[axis]);
    remaining /= batch_pieces[axis];
    batches *= batch_pieces[axis];
  }
  const MatmulGrid grid = choose_grid(problem.c.rows, problem.c.columns, remaining);
  std::vector<MatmulPiece> pieces;
  for (std::int64_t tile = 0; tile < batches * grid.row_tiles * grid.column_tiles; ++tile) {
    const MatmulRange columns =
        tile_range(problem.c.columns, kMatmulColumnStep, grid.column_tiles, tile % grid.column_tiles);
    const MatmulRange rows =
        tile_range(problem.c.rows, kMatmulRowStep, grid.row_tiles, tile / grid.column_tiles % grid.row_tiles);
    if (rows.begin == rows.end || columns.begin == columns.end) continue;
    BatchRanges batch{};
    std::int64_t index = tile / (grid.column_tiles * grid.row_tiles);
    for (std::size_t axis = problem.batch.size(); axis-- > 0;) {
      const std::int64_t size = problem.batch[axis] / batch_pieces[axis];
      batch[axis] = {index % batch_pieces[axis] * size, (index % batch_pieces[axis] + 1) * size};
      index /= batch_pieces[axis];
    }
    pieces.push_back(make_piece(problem, batch, rows, columns));
  }
  return pieces;
}

}  // namespace ridgepoint::cpu
