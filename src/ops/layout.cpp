#include "ops/layout.h"

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// The strides of `from` reshaped to `to`, if they exist. Both shapes are walked from the last dimension; each run of
// dimensions of `from` that are contiguous among themselves must divide exactly into dimensions of `to`.
std::optional<TensorLayout> reshaped(const TensorLayout& from, const Shape& to) {
  TensorLayout result = from;
  result.shape = to;
  result.strides = {};
  if (from.immediate.has_value()) return result;
  if (to.elements() == 0) return dense_layout({from.dtype, to});
  int target = to.rank() - 1;
  std::int64_t block_size = 1;    // elements of the current block of `from`
  std::int64_t block_stride = 0;  // stride of its innermost dimension
  std::int64_t taken = 1;         // elements of the block already covered by `to`
  bool open = false;
  const auto cover = [&] {  // divides the current block into dimensions of `to`
    while (target >= 0 && (taken < block_size || to[target] == 1)) {
      result.strides[index(target)] = block_stride * taken;
      taken *= to[target];
      if (taken > block_size || block_size % taken != 0) return false;
      --target;
    }
    return taken == block_size;
  };
  for (int i = from.shape.rank() - 1; i >= 0; --i) {
    if (from.shape[i] == 1) continue;
    const std::int64_t stride = from.strides[index(i)];
    if (open && stride == block_stride * block_size) {
      block_size *= from.shape[i];
      continue;
    }
    if (open && !cover()) return std::nullopt;
    open = true;
    block_size = from.shape[i];
    block_stride = stride;
    taken = 1;
  }
  if (!cover() || target >= 0) return std::nullopt;
  return result;
}

ValueLayout transposed(const Node& node, const TensorType& type, const ValueLayout& operand) {
  ValueLayout result = operand;
  result.layout.shape = type.shape;
  const auto& permutation = node.attributes.get<std::vector<std::int64_t>>("permutation");
  for (std::size_t i = 0; i < permutation.size(); ++i)
    result.layout.strides[i] = operand.layout.strides[static_cast<std::size_t>(permutation[i])];
  return result;
}

ValueLayout flipped(const Node& node, const ValueLayout& operand) {
  ValueLayout result = operand;
  const int axis = normalise_axis(node.attributes.get<std::int64_t>("axis"), operand.layout.shape.rank());
  result.offset += (operand.layout.shape[axis] - 1) * operand.layout.strides[index(axis)];
  result.layout.strides[index(axis)] = -operand.layout.strides[index(axis)];
  return result;
}

ValueLayout broadcasted(const TensorType& type, const ValueLayout& operand) {
  ValueLayout result = operand;
  result.layout.shape = type.shape;
  result.layout.strides = {};
  const int lead = type.shape.rank() - operand.layout.shape.rank();
  for (int i = 0; i < operand.layout.shape.rank(); ++i) {
    if (operand.layout.shape[i] != 1) result.layout.strides[index(lead + i)] = operand.layout.strides[index(i)];
  }
  return result;
}

// Whether one stride reaches all matrices of a batch. A broadcast dimension counts as such: a copy would materialise
// it.
bool one_stride_reaches_all_matrices(const TensorLayout& layout) {
  std::int64_t expected = -1;  // of the next dimension outwards; -1 before the innermost one
  for (int axis = layout.shape.rank() - 3; axis >= 0; --axis) {
    if (layout.shape[axis] == 1) continue;
    const std::int64_t stride = layout.strides[index(axis)];
    if (stride == 0) return true;
    if (expected >= 0 && stride != expected) return false;
    expected = stride * layout.shape[axis];
  }
  return true;
}

}  // namespace

bool TensorLayout::is_dense() const {
  if (immediate.has_value()) return false;
  std::int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (strides[index(i)] != expected) return shape.elements() == 0;
    expected *= shape[i];
  }
  return true;
}

TensorLayout dense_layout(const TensorType& type) {
  return {type.dtype, type.shape, dense_strides(type.shape), std::nullopt, 0};
}

bool satisfies(const TensorLayout& layout, OperandLayout required) {
  if (required == OperandLayout::any) return true;
  if (layout.immediate.has_value()) return false;
  if (required == OperandLayout::dense) return layout.is_dense();
  const int rank = layout.shape.rank();
  const auto unit = [&](int axis) { return layout.strides[index(axis)] == 1 || layout.shape[axis] == 1; };
  const auto forward = [&](int axis) { return layout.strides[index(axis)] > 0 || layout.shape[axis] == 1; };
  if (rank < 2 || !(unit(rank - 1) || unit(rank - 2)) || !forward(rank - 1) || !forward(rank - 2)) return false;
  for (int i = 0; i < rank - 2; ++i) {
    if (layout.strides[index(i)] < 0) return false;
  }
  return required == OperandLayout::matrix || one_stride_reaches_all_matrices(layout);
}

std::optional<ValueLayout> view_layout(const Graph& graph, const Node& node, const ValueLayout& operand) {
  const TensorType& type = graph.type(node.outputs[0]);
  switch (node.op) {
    case Op::transpose:
      return transposed(node, type, operand);
    case Op::flip:
      return flipped(node, operand);
    case Op::broadcast:
      return broadcasted(type, operand);
    case Op::reshape: {
      const std::optional<TensorLayout> layout = reshaped(operand.layout, type.shape);
      if (!layout) return std::nullopt;
      return ValueLayout{operand.root, operand.offset, *layout};
    }
    default:
      throw Error("'" + std::string(name(node.op)) + "' is not a view");
  }
}

void assign_layouts(const Graph& graph, const Node& node, std::vector<ValueLayout>& layouts) {
  if (layouts.size() < graph.value_count()) layouts.resize(graph.value_count());
  if (op_class(node.op) == OpClass::view) {
    const std::optional<ValueLayout> layout = view_layout(graph, node, layouts[node.inputs[0].id]);
    if (!layout) {
      throw Error("reshape to " + graph.type(node.outputs[0]).to_string() + " in '" + graph.scope_name(node) +
                  "' has no strides that express it; run the pass insert_copies first");
    }
    layouts[node.outputs[0].id] = *layout;
    return;
  }
  for (const Value value : node.outputs) {
    ValueLayout& layout = layouts[value.id];
    layout = {value, 0, dense_layout(graph.type(value))};
    if (node.op == Op::constant) {
      layout.layout.immediate = constant_value(node);
      if (is_integer(layout.layout.dtype)) layout.layout.immediate_integer = constant_integer(node);
    }
  }
}

std::vector<ValueLayout> value_layouts(const Graph& graph) {
  std::vector<ValueLayout> layouts(graph.value_count());
  for (const NodeId id : graph.order()) assign_layouts(graph, graph.node(id), layouts);
  return layouts;
}

}  // namespace ridgepoint
