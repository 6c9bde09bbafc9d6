// Chooses the iteration space of a row program: which axes are rows, which one the columns, and in what order.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lowering/row_axes.h"
#include "lowering/row_program.h"
#include "ops/layout.h"

namespace ridgepoint {

// Strides of one operand, result or iota, by axis of the body.
using AxisStrides = std::vector<std::int64_t>;
AxisStrides axis_strides(const BodyAxes& axes, Value value, const TensorLayout& layout);

// The part of a body that computes some of its outputs.
struct BodyPart {
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
  // What a reduction node takes away.
  AxisSet reduced_by(const Node& node) const { return axes.set_of(node.inputs[0]) & ~axes.set_of(node.outputs[0]); }
};

// The chosen space. Each body axis of the part is one of: columns, summed (a row axis that accumulating outputs
// reduce), kept (any other row axis).
struct ChosenSpace {
  AxisSet columns;
  AxisSet summed;
  RowSpace space;
  // The access of an operand with these strides.
  RowAccess access(DType dtype, const AxisStrides& strides) const;

  std::vector<int> row_axes;  // one surviving body axis for each row axis of `space`
  int column_axis = kNoAxis;  // the surviving column axis
};

// Nullopt when the part's reductions do not share one space.
std::optional<ChosenSpace> choose_space(const BodyPart& part);

}  // namespace ridgepoint
