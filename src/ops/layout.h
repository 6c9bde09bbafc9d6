// The memory layout of values: a view is resolved to an offset and strides into the storage of its root value.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Strides are in elements; they may be 0 (broadcast) or negative (flip). A value with an immediate has no memory.
struct TensorLayout {
  DType dtype = DType::fp32;
  Shape shape;
  std::array<std::int64_t, kMaxRank> strides{};
  std::optional<double> immediate;
  std::int64_t immediate_integer = 0;  // the immediate of an integer dtype, exact where a double is not
  // Whether the layout is contiguous in row-major order (size-1 dimensions may have any stride).
  bool is_dense() const;
};
TensorLayout dense_layout(const TensorType& type);

// The distances of the rows of a tensor [...,R,D] whose last dimension is contiguous: row r of matrix (o, i) begins
// o outer + i inner + r row elements after the first one. The dimension before R counts i, those before it count o.
struct RowStrides {
  std::int64_t outer = 0;
  std::int64_t inner = 0;
  std::int64_t row = 0;
};
// nullopt where the rank is below 2, the last dimension is not contiguous, a dimension is flipped, or one stride does
// not reach all o. A broadcast dimension has stride 0.
std::optional<RowStrides> row_strides(const TensorLayout& layout);

// The layout of a value in the storage of `root` (a value that is not a view), `offset` elements from its start.
struct ValueLayout {
  Value root;
  std::int64_t offset = 0;
  TensorLayout layout;
};

// The layout that a kernel requires of an operand. any: any strides. matrix: one of the last two dimensions has
// stride 1. batched_matrix: in addition, one stride reaches all matrices, or a batch dimension is broadcast,
// and the first begins at a multiple of 256 bytes from the start of the storage.
// aligned_rows: rows as row_strides() describes them, each at a multiple of 16 bytes from the start of the storage.
// rows: the same at any multiple. dense: contiguous.
enum class OperandLayout : std::uint8_t { any, matrix, batched_matrix, aligned_rows, rows, dense };
bool satisfies(const ValueLayout& value, OperandLayout required);

// The layouts of the results of the view `node`, given that of its operand; empty when strides cannot express a
// reshape.
std::vector<ValueLayout> view_layouts(const Graph& graph, const Node& node, const ValueLayout& operand);

// The value that must be written so that operand `index` of the node `placement` (concat) lies where its result lies at
// `whole`, and the layout that it must have. The operand is that value, or reshapes and transposes of it. Nullopt where
// the operand is another view, or strides do not express a reshape.
struct PlacedValue {
  Value value;
  ValueLayout layout;
};
std::optional<PlacedValue> placed_operand(const Graph& graph, const Node& placement, std::size_t index,
                                          const ValueLayout& whole);

// Whether the storage of `operand`, an operand of concat, can lie within that of the result: a kernel writes it, and
// nothing else reads it, directly or through a view. `has_one_reader` says whether one operand of one node, and no
// output or update, is the value.
bool can_be_placed(const Graph& graph, Value operand, const std::function<bool(Value)>& has_one_reader);

// Layouts of all values, indexed by value id: this alone says where values lie. Throws Error at a reshape that strides
// cannot express, and at an operand of concat that no kernel writes, or that has another reader (the pass insert_copies
// removes those).
std::vector<ValueLayout> value_layouts(const Graph& graph);

// Sets the layouts of a node's results, except those that are placed in another value: dense, in the order that
// result_order() says, or in rows as result_row() says. The layouts of its operands must be in `layouts`.
void assign_layouts(const Graph& graph, const Node& node, std::vector<ValueLayout>& layouts);

// The order in which a kernel stores the dimensions of a result: by default that of the result's shape. The pass
// place_results chooses another one where readers need it, as an attribute of the node.

// The order of result `index` of the node, outermost dimension first; nullopt for the order of its shape. In the text
// form, {result_order_0=[0,2,1,3]} stores result 0, [B,H,S,D], as [B,S,H,D]. Throws Error where the attribute is no
// permutation of `rank` axes.
std::optional<Permutation> result_order(const Node& node, std::size_t index, int rank);

// Whether the attribute is one of these orders, or the distance of rows below; every op may have both.
bool is_result_layout(std::string_view attribute);

// Sets or removes the order of result `index`. Returns whether it was another one.
bool set_result_order(Node& node, std::size_t index, const std::optional<Permutation>& order);

// The layout of a contiguous tensor whose dimensions are stored in this order.
TensorLayout layout_in_order(const TensorType& type, const Permutation& order);

// A kernel may store the rows of a result further apart than they are long, so that each begins where products read
// and write it in whole vectors. The pass pad_rows chooses it, as an attribute of the node.

// The elements from one row to the next that products prefer to dense rows; nullopt where those begin at multiples of
// 16 bytes, or are so short that the tensor would grow by more than a sixteenth.
std::optional<std::int64_t> padded_row(const TensorType& type);

// The elements from one row of result `index` to the next; nullopt for dense rows, and for a result with an order. In
// the text form, {result_row_0=50304} stores the rows of result 0, [T,50257], 50304 elements apart. Throws Error where
// the attribute is less than a row, or the result has no rows.
std::optional<std::int64_t> result_row(const Node& node, std::size_t index, const Shape& shape);

// Sets or removes the distance of the rows of result `index`. Returns whether it was another one.
bool set_result_row(Node& node, std::size_t index, std::optional<std::int64_t> row);

// The layout of a tensor whose rows are `row` elements apart.
TensorLayout layout_with_rows(const TensorType& type, std::int64_t row);

// The dense tensor that takes the storage of a value that is no view: the value's type, its rows as long as they are
// apart.
TensorType storage_type(const Graph& graph, Value value);

// Whether result `index` of a node may be written to the storage of the input `target`. A dense result may when the
// node reads nothing in that storage; when the node is elementwise and reads it densely; or when the node reads it
// through one dense operand that its op donates to this result. So may a result in padded rows where what is read has
// the same rows. `layouts` are those of all values.
bool can_write_over(const Node& node, std::size_t index, Value target, std::span<const ValueLayout> layouts);

}  // namespace ridgepoint
