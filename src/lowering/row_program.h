// A row program: elementwise work and reductions over an iteration space of rows x columns, independent of the device.
// The CPU's tile interpreter runs it; the CUDA generator prints it as a kernel.
//
// The space has up to kMaxRank axes: row axes, outermost first, and one column axis. The row axes [0, kept) enumerate
// groups of rows; accumulating outputs sum over the remaining row axes. Axes that are contiguous in every access are
// merged, so dense elementwise work of any rank is a single row.
//
// Instructions are in SSA order. The level of a value is the rate at which it changes: never (uniform), with each row,
// or with each column. A `reduce` computes a row value from a column value. Instructions that depend on its result are
// in the next phase; each phase is one loop over the columns of a row. Row and uniform values of phase p are computed
// before that loop of phase p; those of phase `phases` after the last loop.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/layout.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

struct RowSpace {
  std::vector<std::int64_t> rows;  // sizes of the row axes
  int kept = 0;                    // number of row axes that enumerate groups
  std::int64_t columns = 1;

  std::int64_t group_count() const;
  std::int64_t rows_per_group() const;
  std::int64_t row_count() const { return group_count() * rows_per_group(); }
};

// The strides of an operand or result along the axes of the space, in elements; 0 where it does not vary. For an iota,
// the offset that they give is its value.
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
  int input = -1;                           // load: the index of the body input
  RowAccess access;                         // load, iota
  double value = 0.0;                       // constant
  std::int64_t integer = 0;                 // constant of an integer dtype
};

// element: one element per row and column. row: one element per row. accumulate_columns: reduced over the rows of a
// group, one element per group and column. accumulate_rows: a row value reduced over the rows of a group, one element
// per group.
enum class RowStore : std::uint8_t { element, row, accumulate_columns, accumulate_rows };
std::string_view name(RowStore store);

struct RowOutput {
  int output = 0;  // the index of the body output
  RowStore store = RowStore::element;
  int value = 0;  // an instruction; of column level for element and accumulate_columns, of a lower level otherwise
  Op op = Op::reduce_sum;  // accumulating stores: reduce_sum or reduce_max
  RowAccess access;
};

struct RowProgram {
  RowSpace space;
  int phases = 1;
  std::vector<RowInstruction> instructions;
  std::vector<RowOutput> outputs;
};

// The programs that compute a body's outputs: one program for each set of outputs that share work, in output order. The
// body contains primitives only, and its inputs and outputs are called "0", "1", .... `inputs` and `outputs` give their
// layouts; the layout of an input that is a constant in the body is ignored. Nullopt for a body that is not supported:
// it contains a contraction, gather or flip, a reshape that regroups several dimensions into several others, a value
// that is combined with its own transpose or with a different split of a dimension, or reductions over different sets
// of axes.
std::optional<std::vector<RowProgram>> lower_to_rows(const Graph& body, std::span<const TensorLayout> inputs,
                                                     std::span<const TensorLayout> outputs);

// Whether one program computes the body of a fused node, whatever the strides of its operands are.
bool lowers_to_one_program(const Graph& body);

// One instruction a line, for tests and dumps.
std::string print(const RowProgram& program);

}  // namespace ridgepoint
