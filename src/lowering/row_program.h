// A row program: elementwise work and row reductions as one pass over a space of rows x columns, free of any
// device. The CPU's tile interpreter runs it, a code generator can print it as a kernel.
//
// The space has up to kMaxRank axes: row axes, outermost first, and one column axis. Row axes [0, kept) number
// groups of rows; the row axes after them are summed by accumulating outputs. Axes that every access walks as one
// are merged, so dense elementwise work of any rank is a single row.
//
// Instructions are in SSA order. The level of a value says how often it changes: never (uniform), once a row, or
// with every column. A `reduce` turns a column value into a row value; what depends on it belongs to the next
// phase, and a row is swept once for each phase. Row and uniform values of phase p are known before the columns of
// phase p are swept; those of phase `phases` after the last sweep.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/layout.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

struct RowSpace {
  std::vector<std::int64_t> rows;  // sizes of the row axes
  int kept = 0;                    // how many of them number groups
  std::int64_t columns = 1;

  std::int64_t group_count() const;
  std::int64_t rows_per_group() const;
  std::int64_t row_count() const { return group_count() * rows_per_group(); }
};

// How an operand or a result lies over the space: strides in elements, 0 where it does not vary. For an iota the
// same sum is its value.
struct RowAccess {
  DType dtype = DType::fp32;
  std::array<std::int64_t, kMaxRank> row_strides{};
  std::int64_t column_stride = 0;
  friend bool operator==(const RowAccess&, const RowAccess&) = default;
};

enum class RowLevel : std::uint8_t { uniform, row, column };
std::string_view name(RowLevel level);

enum class RowKind : std::uint8_t { load, constant, iota, elementwise, reduce };
std::string_view name(RowKind kind);

struct RowInstruction {
  RowKind kind = RowKind::constant;
  Op op = Op::copy;  // elementwise: the op; reduce: reduce_sum or reduce_max
  DType dtype = DType::fp32;
  RowLevel level = RowLevel::uniform;
  int phase = 0;
  std::array<int, 3> operands{-1, -1, -1};  // earlier instructions
  int input = -1;                           // load: the body input read
  RowAccess access;                         // load, iota
  double value = 0.0;                       // constant
  std::int64_t integer = 0;                 // constant of an integer dtype
};

// element: one for each row and column. row: one a row. accumulate_columns: reduced over the rows of a group, one
// for each group and column. accumulate_rows: a row value reduced over the rows of a group, one a group.
enum class RowStore : std::uint8_t { element, row, accumulate_columns, accumulate_rows };
std::string_view name(RowStore store);

struct RowOutput {
  int output = 0;  // which body output
  RowStore store = RowStore::element;
  int value = 0;           // an instruction of column level for element and accumulate_columns, below for the others
  Op op = Op::reduce_sum;  // accumulating stores: reduce_sum or reduce_max
  RowAccess access;
};

struct RowProgram {
  RowSpace space;
  int phases = 1;
  std::vector<RowInstruction> instructions;
  std::vector<RowOutput> outputs;
};

// The programs that compute a body's outputs: one for each part of the body that shares work, in output order. The
// body holds primitives only and its inputs and outputs are called "0", "1", ...; `inputs` and `outputs` give
// their layouts (inputs the body does not have, because they are constants there, are ignored). Nullopt when the
// body does not fit: a contraction or gather, a slice or flip inside, a reshape that does more than add or drop
// size-1 dimensions, a transpose that meets its own operand, or reductions that do not share one set of axes.
std::optional<std::vector<RowProgram>> lower_to_rows(const Graph& body, std::span<const TensorLayout> inputs,
                                                     std::span<const TensorLayout> outputs);

// One instruction a line, for tests and dumps.
std::string print(const RowProgram& program);

}  // namespace ridgepoint
