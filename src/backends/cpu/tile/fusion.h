// Pairs of instructions that one tile function does in a single pass over the columns.
#pragma once

#include <array>
#include <vector>

#include "backends/cpu/tile/functions/functions.h"
#include "lowering/row_program.h"

namespace ridgepoint::cpu {

// What the interpreter does for an instruction.
// plain: as the row program says. pair: `pair` of up to three operands. compare_index: the column's index times its
// stride against a scalar. pick: a sum in which only the column whose index equals a scalar counts, so that element
// is read and nothing swept.
struct TileFusion {
  enum class Kind : std::uint8_t { plain, pair, compare_index, pick };
  Kind kind = Kind::plain;
  tile::Pair pair = tile::Pair::mul_add;
  // Plain: those of the instruction. Pair: in the pair's order. compare_index: the scalar. pick: a load, the scalar.
  std::array<int, 3> operands{-1, -1, -1};
  std::int64_t stride = 1;  // compare_index: of the index
  bool absorbed = false;    // done by its only user
};

// The largest value of an iota over the space.
std::int64_t largest_index(const RowSpace& space, const RowAccess& iota);

// By instruction. An instruction is absorbed only if its one user is a column value of the same phase.
std::vector<TileFusion> find_fusions(const RowProgram& program);

}  // namespace ridgepoint::cpu
