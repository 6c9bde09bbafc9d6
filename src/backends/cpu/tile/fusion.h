// Finds instructions that one tile function can compute in a single pass over the columns.
#pragma once

#include <array>
#include <vector>

#include "backends/cpu/tile/functions/functions.h"
#include "lowering/row_program.h"

namespace ridgepoint::cpu {

// How an instruction is computed. plain: as the row program has it. pair: by `pair`, with up to three operands.
// compare_index: by comparing the column's index times `stride` with a scalar. pick: a sum in which only the column
// whose index equals a scalar counts; that one element is read instead.
struct TileFusion {
  enum class Kind : std::uint8_t { plain, pair, compare_index, pick };
  Kind kind = Kind::plain;
  tile::Pair pair = tile::Pair::mul_add;
  // plain: the instruction's operands. pair: the operands in the order of `pair`. compare_index: the scalar. pick: a
  // load and the scalar.
  std::array<int, 3> operands{-1, -1, -1};
  std::int64_t stride = 1;  // of the index of compare_index
  bool absorbed = false;    // computed within its only user
};

// The largest value of an iota over the space.
std::int64_t largest_index(const RowSpace& space, const RowAccess& iota);

// Indexed by instruction. An instruction is absorbed only if its single user is a column value of the same phase.
std::vector<TileFusion> find_fusions(const RowProgram& program);

}  // namespace ridgepoint::cpu
