#include "ops/layout.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <string>
#include <utility>

#include "core/rounding.h"
#include "ops/overwrite.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kRowAlignmentBytes = 16;
constexpr std::int64_t kMatrixAlignmentBytes = 256;
constexpr std::int64_t kPaddedRowBytes = 128;  // whole lines of the L2 cache of GPUs
constexpr std::int64_t kLeastPaddedBytes = 16 * kPaddedRowBytes;

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

// The part of `whole` along `axis` that begins at `start`.
ValueLayout part_of(const ValueLayout& whole, const Shape& shape, int axis, std::int64_t start) {
  ValueLayout part = whole;
  part.offset += start * whole.layout.strides[index(axis)];
  part.layout.shape = shape;
  return part;
}

std::vector<ValueLayout> parts(const Graph& graph, const Node& node, const ValueLayout& operand) {
  std::vector<ValueLayout> found;
  const int axis = normalise_axis(node.attributes.get<std::int64_t>("axis"), operand.layout.shape.rank());
  std::int64_t start = 0;
  for (const Value value : node.outputs) {
    const Shape& shape = graph.type(value).shape;
    found.push_back(part_of(operand, shape, axis, start));
    start += shape[axis];
  }
  return found;
}

ValueLayout transposed(const Permutation& permutation, const Shape& shape, const ValueLayout& operand) {
  ValueLayout result = operand;
  result.layout.shape = shape;
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

[[noreturn]] void fail_placement(const Graph& graph, const Node& placement, std::size_t operand) {
  throw Error("operand " + std::to_string(operand) + " of '" + std::string(name(placement.op)) + "' in '" +
              graph.scope_name(placement) +
              "' cannot be written in place: it is no result of a kernel, or something else reads it; run the pass "
              "insert_copies first");
}

// From the last placement to the first, so that a placement within another one finds its own place.
void place_operands(const Graph& graph, std::vector<ValueLayout>& layouts) {
  const std::span<const NodeId> order = graph.order();
  const auto is_placement = [&](NodeId id) { return op_class(graph.node(id).op) == OpClass::placement; };
  if (std::ranges::none_of(order, is_placement)) return;
  const Readers readers(graph);
  const auto has_one_reader = [&](Value value) { return readers.is_read_once(graph, value); };
  for (const NodeId id : std::views::reverse(order)) {
    if (!is_placement(id)) continue;
    const Node& node = graph.node(id);
    assign_layouts(graph, node, layouts);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<PlacedValue> placed = placed_operand(graph, node, i, layouts[node.outputs[0].id]);
      if (!placed || !can_be_placed(graph, node.inputs[i], has_one_reader) || layouts[placed->value.id].root.valid())
        fail_placement(graph, node, i);
      layouts[placed->value.id] = placed->layout;
    }
  }
}

bool has_aligned_rows(const ValueLayout& value) {
  const std::optional<RowStrides> strides = row_strides(value.layout);
  if (!strides) return false;
  const auto is_aligned = [&](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(size_bytes(value.layout.dtype)) % kRowAlignmentBytes == 0;
  };
  return is_aligned(value.offset) && is_aligned(strides->outer) && is_aligned(strides->inner) &&
         is_aligned(strides->row);
}

bool is_matrix(const TensorLayout& layout) {
  const int rank = layout.shape.rank();
  const auto unit = [&](int axis) { return layout.strides[index(axis)] == 1 || layout.shape[axis] == 1; };
  const auto forward = [&](int axis) { return layout.strides[index(axis)] > 0 || layout.shape[axis] == 1; };
  if (rank < 2 || !(unit(rank - 1) || unit(rank - 2)) || !forward(rank - 1) || !forward(rank - 2)) return false;
  for (int i = 0; i < rank - 2; ++i) {
    if (layout.strides[index(i)] < 0) return false;
  }
  return true;
}

// The layout of a result that is not a view.
TensorLayout own_layout(const Node& node, std::size_t index, const TensorType& type) {
  if (launches(node.op)) {
    if (const std::optional<std::int64_t> row = result_row(node, index, type.shape))
      return layout_with_rows(type, *row);
    const std::optional<Permutation> order = result_order(node, index, type.shape.rank());
    return order ? layout_in_order(type, *order) : dense_layout(type);
  }
  TensorLayout layout = dense_layout(type);
  if (node.op == Op::constant) {
    layout.immediate = constant_value(node);
    if (is_integer(layout.dtype)) layout.immediate_integer = constant_integer(node);
  }
  return layout;
}

constexpr std::string_view kResultOrder = "result_order_";
constexpr std::string_view kResultRow = "result_row_";

std::string attribute_name(std::string_view kind, std::size_t index) {
  return std::string(kind) + std::to_string(index);
}

// Sets the attribute, or removes it. Returns whether it was another one.
template <typename T>
bool set_attribute(Node& node, const std::string& attribute, const std::optional<T>& value) {
  if (!value && !node.attributes.contains(attribute)) return false;
  Attributes changed = node.attributes;
  changed.erase(attribute);
  if (value) changed.set(attribute, *value);
  if (changed == node.attributes) return false;
  node.attributes = std::move(changed);
  return true;
}

}  // namespace

bool can_be_placed(const Graph& graph, Value operand, const std::function<bool(Value)>& has_one_reader) {
  for (Value value = operand;; value = graph.producer_node(value).inputs[0]) {
    if (!has_one_reader(value)) return false;
    const Op op = graph.producer_node(value).op;
    if (op_class(op) != OpClass::view) return launches(op) || op_class(op) == OpClass::placement;
  }
}

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

std::optional<RowStrides> row_strides(const TensorLayout& layout) {
  const int rank = layout.shape.rank();
  if (rank < 2 || layout.immediate.has_value()) return std::nullopt;
  // The stride of a dimension of size 1 reaches nothing.
  const auto stride = [&](int axis) { return layout.shape[axis] == 1 ? 0 : layout.strides[index(axis)]; };
  if (layout.shape[rank - 1] != 1 && stride(rank - 1) != 1) return std::nullopt;
  RowStrides strides{0, rank > 2 ? stride(rank - 3) : 0, stride(rank - 2)};
  if (strides.inner < 0 || strides.row < 0) return std::nullopt;
  std::int64_t expected = -1;  // of the next dimension outwards; -1 before the innermost one
  for (int axis = rank - 4; axis >= 0; --axis) {
    if (layout.shape[axis] == 1) continue;
    if (stride(axis) < 0 || (expected >= 0 && stride(axis) != expected)) return std::nullopt;
    if (expected < 0) strides.outer = stride(axis);
    expected = stride(axis) * layout.shape[axis];
  }
  return strides;
}

bool satisfies(const ValueLayout& value, OperandLayout required) {
  switch (required) {
    case OperandLayout::any: return true;
    case OperandLayout::matrix: return !value.layout.immediate && is_matrix(value.layout);
    case OperandLayout::batched_matrix:
      return !value.layout.immediate && is_matrix(value.layout) && one_stride_reaches_all_matrices(value.layout) &&
             value.offset * static_cast<std::int64_t>(size_bytes(value.layout.dtype)) % kMatrixAlignmentBytes == 0;
    case OperandLayout::aligned_rows: return has_aligned_rows(value);
    case OperandLayout::rows: return row_strides(value.layout).has_value();
    case OperandLayout::dense: return value.layout.is_dense();
  }
  return false;
}

std::vector<ValueLayout> view_layouts(const Graph& graph, const Node& node, const ValueLayout& operand) {
  const TensorType& type = graph.type(node.outputs[0]);
  switch (node.op) {
    case Op::transpose: return {transposed(permutation_of(node), type.shape, operand)};
    case Op::flip: return {flipped(node, operand)};
    case Op::broadcast: return {broadcasted(type, operand)};
    case Op::split: return parts(graph, node, operand);
    case Op::reshape: {
      const std::optional<TensorLayout> layout = reshaped(operand.layout, type.shape);
      if (!layout) return {};
      return {{operand.root, operand.offset, *layout}};
    }
    default: throw Error("'" + std::string(name(node.op)) + "' is not a view");
  }
}

std::optional<PlacedValue> placed_operand(const Graph& graph, const Node& placement, std::size_t index,
                                          const ValueLayout& whole) {
  const int axis = normalise_axis(placement.attributes.get<std::int64_t>("axis"), whole.layout.shape.rank());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < index; ++i) start += graph.type(placement.inputs[i]).shape[axis];
  PlacedValue placed{placement.inputs[index], {}};
  placed.layout = part_of(whole, graph.type(placed.value).shape, axis, start);
  for (;;) {
    const Node& view = graph.producer_node(placed.value);
    if (op_class(view.op) != OpClass::view) return placed;
    const Value source = view.inputs[0];
    const Shape& shape = graph.type(source).shape;
    if (view.op == Op::transpose) {
      placed.layout = transposed(inverse_of(permutation_of(view)), shape, placed.layout);
    } else if (view.op == Op::reshape) {
      const std::optional<TensorLayout> before = reshaped(placed.layout.layout, shape);
      if (!before) return std::nullopt;
      placed.layout.layout = *before;
    } else {
      return std::nullopt;
    }
    placed.value = source;
  }
}

void assign_layouts(const Graph& graph, const Node& node, std::vector<ValueLayout>& layouts) {
  if (layouts.size() < graph.value_count()) layouts.resize(graph.value_count());
  if (op_class(node.op) == OpClass::view) {
    const std::vector<ValueLayout> found = view_layouts(graph, node, layouts[node.inputs[0].id]);
    if (found.empty()) {
      throw Error("reshape to " + graph.type(node.outputs[0]).to_string() + " in '" + graph.scope_name(node) +
                  "' has no strides that express it; run the pass insert_copies first");
    }
    for (std::size_t i = 0; i < found.size(); ++i) layouts[node.outputs[i].id] = found[i];
    return;
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value value = node.outputs[i];
    if (layouts[value.id].root.valid()) continue;
    layouts[value.id] = {value, 0, own_layout(node, i, graph.type(value))};
  }
}

std::vector<ValueLayout> value_layouts(const Graph& graph) {
  std::vector<ValueLayout> layouts(graph.value_count());
  place_operands(graph, layouts);
  for (const NodeId id : graph.order()) assign_layouts(graph, graph.node(id), layouts);
  return layouts;
}

std::optional<Permutation> result_order(const Node& node, std::size_t index, int rank) {
  if (node.attributes.items().empty()) return std::nullopt;
  const std::string attribute = attribute_name(kResultOrder, index);
  if (!node.attributes.contains(attribute)) return std::nullopt;
  const auto& order = node.attributes.get<Permutation>(attribute);
  Permutation axes = order;
  std::ranges::sort(axes);
  if (axes != identity_permutation(rank)) {
    throw Error("the attribute '" + attribute + "' of '" + std::string(name(node.op)) +
                "' must be a permutation of the " + std::to_string(rank) + " axes of the result");
  }
  return order;
}

bool is_result_layout(std::string_view attribute) {
  return attribute.starts_with(kResultOrder) || attribute.starts_with(kResultRow);
}

bool set_result_order(Node& node, std::size_t index, const std::optional<Permutation>& order) {
  return set_attribute(node, attribute_name(kResultOrder, index), order);
}

std::optional<std::int64_t> padded_row(const TensorType& type) {
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(type.dtype));
  const std::int64_t bytes = type.shape[-1] * element_bytes;
  if (bytes < kLeastPaddedBytes || bytes % kRowAlignmentBytes == 0) return std::nullopt;
  return round_up(bytes, kPaddedRowBytes) / element_bytes;
}

std::optional<std::int64_t> result_row(const Node& node, std::size_t index, const Shape& shape) {
  if (node.attributes.items().empty()) return std::nullopt;
  const std::string attribute = attribute_name(kResultRow, index);
  if (!node.attributes.contains(attribute)) return std::nullopt;
  const auto row = node.attributes.get<std::int64_t>(attribute);
  if (shape.rank() < 2 || row < shape[-1] || result_order(node, index, shape.rank())) {
    throw Error("the attribute '" + attribute + "' of '" + std::string(name(node.op)) +
                "' must be at least the length of a row of " + shape.to_string() + ", which has no other order");
  }
  return row;
}

bool set_result_row(Node& node, std::size_t index, std::optional<std::int64_t> row) {
  return set_attribute(node, attribute_name(kResultRow, index), row);
}

TensorLayout layout_with_rows(const TensorType& type, std::int64_t row) {
  TensorLayout layout = dense_layout(type);
  layout.strides = dense_strides(with_size(type.shape, type.shape.rank() - 1, row));
  return layout;
}

TensorType storage_type(const Graph& graph, Value value) {
  const Node& node = graph.producer_node(value);
  const TensorType& type = graph.type(value);
  if (!launches(node.op)) return type;
  const auto index = static_cast<std::size_t>(std::ranges::find(node.outputs, value) - node.outputs.begin());
  const std::optional<std::int64_t> row = result_row(node, index, type.shape);
  return row ? TensorType{type.dtype, with_size(type.shape, type.shape.rank() - 1, *row)} : type;
}

TensorLayout layout_in_order(const TensorType& type, const Permutation& order) {
  TensorLayout layout = dense_layout(type);
  std::int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    layout.strides[static_cast<std::size_t>(*axis)] = stride;
    stride *= type.shape[static_cast<int>(*axis)];
  }
  return layout;
}

bool can_write_over(const Node& node, std::size_t index, Value target, std::span<const ValueLayout> layouts) {
  std::vector<Value> read;
  std::ranges::copy_if(node.inputs, std::back_inserter(read),
                       [&](Value value) { return layouts[value.id].root == target; });
  return can_write_over(node, index, donated_operand(node, index), read, layouts);
}

}  // namespace ridgepoint
