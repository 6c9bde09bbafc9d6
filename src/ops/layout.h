// How a value lies in memory: views are resolved to a strided window on the storage of the value they re-read.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ir/queries.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// Strides are in elements, may be 0 (broadcast) or negative (flip). An operand with an immediate has no memory.
struct TensorLayout {
  DType dtype = DType::fp32;
  Shape shape;
  std::array<std::int64_t, kMaxRank> strides{};
  std::optional<double> immediate;
  std::int64_t immediate_integer = 0;  // the immediate of an integer dtype, exact where a double is not
  // Whether elements lie one after the other in row-major order (size-1 dimensions may have any stride).
  bool is_dense() const;
};
TensorLayout dense_layout(const TensorType& type);

// What a device asks of an operand: any strides; one unit stride among the last two dimensions (matrix); that and one
// stride through all dimensions before them, but for broadcast ones (batched_matrix); dense.
enum class OperandLayout : std::uint8_t { any, matrix, batched_matrix, dense };
bool satisfies(const TensorLayout& layout, OperandLayout required);

// A window on the storage of `root` (a value that is not a view), `offset` elements from its start.
struct ValueLayout {
  Value root;
  std::int64_t offset = 0;
  TensorLayout layout;
};

// The layout of `node`'s result when `operand` is the layout of its operand; nullopt when a reshape cannot be
// expressed by strides. `node` is a view.
std::optional<ValueLayout> view_layout(const Graph& graph, const Node& node, const ValueLayout& operand);

// Layouts of all values, indexed by value id. Throws Error at a reshape that strides cannot express (the pass
// insert_copies removes those).
std::vector<ValueLayout> value_layouts(const Graph& graph);

// The layout of one value whose operands are already in `layouts`; appends or overwrites its entry.
void assign_layouts(const Graph& graph, const Node& node, std::vector<ValueLayout>& layouts);

}  // namespace ridgepoint
