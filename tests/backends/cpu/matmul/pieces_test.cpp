#include "backends/cpu/matmul/pieces.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace ridgepoint::cpu {
namespace {

StridedMatrix dense(std::int64_t rows, std::int64_t columns) {
  StridedMatrix matrix;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.row_stride = columns;
  matrix.column_stride = 1;
  return matrix;
}

StridedMatrix batched(StridedMatrix matrix, std::int64_t outer, std::int64_t inner) {
  matrix.batch_strides = {outer, inner};
  return matrix;
}

// Every element of c that a piece computes, by its offset.
std::vector<std::int64_t> outputs(const MatmulPiece& piece) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t batch = 0; batch < piece.problem.batch_count(); ++batch) {
    for (std::int64_t row = 0; row < piece.problem.c.rows; ++row) {
      for (std::int64_t column = 0; column < piece.problem.c.columns; ++column) {
        offsets.push_back(piece.c_offset + batch_offset(piece.problem, piece.problem.c, batch) +
                          row * piece.problem.c.row_stride + column);
      }
    }
  }
  return offsets;
}

TEST(MatmulPieces, cover_every_output_once) {
  const MatmulProblem flat{{}, dense(201, 30), dense(30, 331), dense(201, 331)};
  const MatmulProblem heads{{3, 4},
                            batched(dense(50, 8), 4 * 50 * 8, 50 * 8),
                            batched(dense(8, 60), 4 * 8 * 60, 8 * 60),
                            batched(dense(50, 60), 4 * 50 * 60, 50 * 60)};
  for (const MatmulProblem& problem : {flat, heads}) {
    for (const int parts : {1, 2, 3, 4, 6, 7, 8, 16}) {
      std::multiset<std::int64_t> computed;
      for (const MatmulPiece& piece : split_into_pieces(problem, parts, 1)) {
        const std::vector<std::int64_t> offsets = outputs(piece);
        computed.insert(offsets.begin(), offsets.end());
      }
      std::vector<std::int64_t> all(
          static_cast<std::size_t>(problem.batch_count() * problem.c.rows * problem.c.columns));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_TRUE(std::equal(computed.begin(), computed.end(), all.begin(), all.end())) << parts << " parts";
    }
  }
}

TEST(MatmulPieces, read_the_rows_and_columns_that_they_write) {
  const MatmulProblem problem{{}, dense(64, 10), dense(10, 96), dense(64, 96)};
  for (const MatmulPiece& piece : split_into_pieces(problem, 4, 1)) {
    EXPECT_EQ(piece.a_offset, piece.c_offset / 96 * 10);
    EXPECT_EQ(piece.b_offset, piece.c_offset % 96);
    EXPECT_EQ(piece.problem.a.columns, 10);
    EXPECT_EQ(piece.problem.b.row_stride, 96);
  }
}

TEST(MatmulPieces, cut_the_batch_where_that_is_even) {
  const MatmulProblem problem{{4, 12},
                              batched(dense(256, 64), 12 * 256 * 64, 256 * 64),
                              batched(dense(64, 256), 12 * 64 * 256, 64 * 256),
                              batched(dense(256, 256), 12 * 256 * 256, 256 * 256)};
  const std::vector<MatmulPiece> two = split_into_pieces(problem, 2, 1);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[1].problem.batch, (std::vector<std::int64_t>{2, 12}));
  const std::vector<MatmulPiece> sixteen = split_into_pieces(problem, 16, 1);
  ASSERT_EQ(sixteen.size(), 16U);
  EXPECT_EQ(sixteen[5].problem.batch, (std::vector<std::int64_t>{3}));
}

TEST(MatmulPieces, are_fewer_where_there_is_little_to_do) {
  const MatmulProblem problem{{}, dense(64, 64), dense(64, 64), dense(64, 64)};
  EXPECT_EQ(split_into_pieces(problem, 8, kMinTileFlops).size(), 1U);
  EXPECT_EQ(split_into_pieces(problem, 8, problem.flops() / 2).size(), 2U);
}

}  // namespace
}  // namespace ridgepoint::cpu
