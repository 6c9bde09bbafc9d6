// The memory layout of values: a view is resolved to an offset and strides into the storage of its root value.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ir/queries.h"
#include "ridgepoint/graph.h"

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

// The layout that a kernel requires of an operand. any: any strides. matrix: one of the last two dimensions has
// stride 1. batched_matrix: in addition, one stride reaches all matrices, or a batch dimension is broadcast. dense:
// contiguous.
enum class OperandLayout : std::uint8_t { any, matrix, batched_matrix, dense };
bool satisfies(const TensorLayout& layout, OperandLayout required);

// The layout of a value in the storage of `root` (a value that is not a view), `offset` elements from its start.
struct ValueLayout {
  Value root;
  std::int64_t offset = 0;
  TensorLayout layout;
};

// The layout of the result of the view `node`, given that of its operand; nullopt when strides cannot express a
// reshape.
std::optional<ValueLayout> view_layout(const Graph& graph, const Node& node, const ValueLayout& operand);

// Layouts of all values, indexed by value id. Throws Error at a reshape that strides cannot express (the pass
// insert_copies removes those).
std::vector<ValueLayout> value_layouts(const Graph& graph);

// Sets the layouts of a node's results. Those of its operands must be in `layouts`.
void assign_layouts(const Graph& graph, const Node& node, std::vector<ValueLayout>& layouts);

}  // namespace ridgepoint
