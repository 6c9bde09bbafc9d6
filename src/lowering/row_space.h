// Chooses the iteration space of a row program: the row axes, their order, and the column axis.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lowering/row_program.h"
#include "ops/layout.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Assigns the dimensions of a body's values to loops, called axes. Dimensions over which an op iterates together have
// the same axes. Most have one. A dimension that a reshape splits, or merges of several, has one for each factor; a
// dimension of size 1 has none.
inline constexpr std::size_t kMaxBodyAxes = 64;
using AxisSet = std::bitset<kMaxBodyAxes>;
inline constexpr int kNoAxis = -1;

struct BodyAxes {
  std::vector<std::int64_t> sizes;                // of each axis, never 1
  std::vector<std::vector<std::vector<int>>> of;  // by value id: the axes of each dimension, the outermost first
  AxisSet set_of(Value value) const;
};

// Nullopt when the body contains an op that lower_to_rows() does not support, or more than kMaxBodyAxes axes.
std::optional<BodyAxes> find_axes(const Graph& body);

// The strides of an operand, result or iota, by axis of the body.
using AxisStrides = std::vector<std::int64_t>;
AxisStrides axis_strides(const BodyAxes& axes, Value value, const TensorLayout& layout);

// The nodes of a body that compute some of its outputs.
struct Subgraph {
  const Graph& body;
  const BodyAxes& axes;
  std::vector<NodeId> nodes;  // in schedule order
  std::vector<int> outputs;   // indices of the outputs it computes
  std::span<const TensorLayout> inputs;
  std::span<const TensorLayout> output_layouts;

  AxisSet all_axes() const;
  Value output(int index) const;
  // Strides of an input or iota node's value along the axes.
  AxisStrides strides_of(const Node& node) const;
  // The axes of a reduction node.
  AxisSet reduced_by(const Node& node) const { return axes.set_of(node.inputs[0]) & ~axes.set_of(node.outputs[0]); }
};

// The chosen space. Each axis of the subgraph is in `columns`, in `summed` (row axes that accumulating outputs reduce)
// or in neither (the other row axes).
struct ChosenSpace {
  AxisSet columns;
  AxisSet summed;
  RowSpace space;
  // The access of an operand with these strides.
  RowAccess access(DType dtype, const AxisStrides& strides) const;

  std::vector<int> row_axes;  // one merged axis for each row axis of `space`
  int column_axis = kNoAxis;  // the merged column axis
};

// The spaces that support all reductions of the subgraph, the best one first. The first may not suit an output that
// varies along too few axes.
std::vector<ChosenSpace> choose_spaces(const Subgraph& subgraph);

}  // namespace ridgepoint
