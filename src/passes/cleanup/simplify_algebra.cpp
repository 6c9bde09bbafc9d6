// Removes nodes whose result is bitwise equal to an operand under IEEE arithmetic, computes arithmetic on constants,
// and merges chains of views. It removes x - 0, x + (-0), x * 1 and x / 1, but not x + 0, which turns -0 into +0. It
// does not reassociate.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

bool is_constant(const Graph& graph, Value value, double expected) {
  const std::optional<double> found = constant_behind(graph, value);
  return found && *found == expected && std::signbit(*found) == std::signbit(expected);
}

// The operand that the node's result equals, if any. The caller checks that the types are equal.
std::optional<Value> equal_operand(const Graph& graph, const Node& node) {
  const auto operand = [&](std::size_t i) { return node.inputs[i]; };
  const auto is = [&](std::size_t i, double value) { return is_constant(graph, operand(i), value); };
  switch (node.op) {
    case Op::detach:
    case Op::cast:
    case Op::reshape:
    case Op::broadcast: return operand(0);
    case Op::transpose: return is_identity(permutation_of(node)) ? std::optional(operand(0)) : std::nullopt;
    case Op::neg: {
      const Node& inner = graph.producer_node(operand(0));
      return inner.op == Op::neg ? std::optional(inner.inputs[0]) : std::nullopt;
    }
    case Op::flip: {
      const Node& inner = graph.producer_node(operand(0));
      return inner.op == Op::flip && inner.attributes == node.attributes ? std::optional(inner.inputs[0])
                                                                         : std::nullopt;
    }
    case Op::mul:
      if (is(1, 1.0)) return operand(0);
      return is(0, 1.0) ? std::optional(operand(1)) : std::nullopt;
    case Op::div: return is(1, 1.0) ? std::optional(operand(0)) : std::nullopt;
    case Op::sub: return is(1, 0.0) ? std::optional(operand(0)) : std::nullopt;
    case Op::add:
      if (is(1, -0.0)) return operand(0);
      return is(0, -0.0) ? std::optional(operand(1)) : std::nullopt;
    case Op::where: return operand(1) == operand(2) ? std::optional(operand(1)) : std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<float> arithmetic(Op op, float a, float b) {
  switch (op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    default: return std::nullopt;
  }
}

// The result of fp32 arithmetic on two constants: every device rounds it to the same number. If the loss is a mean over
// micro-batches or ranks, its gradient begins with a product of constants.
std::optional<Value> constant_result(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node& node = graph.node(id);
  const TensorType type = graph.type(node.outputs[0]);
  if (node.inputs.size() != 2 || type.dtype != DType::fp32) return std::nullopt;
  const std::optional<double> a = constant_behind(graph, node.inputs[0]);
  const std::optional<double> b = constant_behind(graph, node.inputs[1]);
  if (!a || !b) return std::nullopt;
  const std::optional<float> result = arithmetic(node.op, static_cast<float>(*a), static_cast<float>(*b));
  if (!result || !std::isfinite(*result)) return std::nullopt;
  rewriter.insert_before(id);
  return broadcast(graph, constant(graph, *result, type.dtype), type.shape);
}

// One view in place of two consecutive views of the same op.
std::optional<Value> folded_views(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node& node = graph.node(id);
  if (op_class(node.op) != OpClass::view) return std::nullopt;
  const Node& inner = graph.producer_node(node.inputs[0]);
  if (inner.op != node.op) return std::nullopt;
  const Shape shape = graph.type(node.outputs[0]).shape;
  rewriter.insert_before(id);
  switch (node.op) {
    case Op::reshape: return reshape(graph, inner.inputs[0], shape);
    case Op::broadcast: return broadcast(graph, inner.inputs[0], shape);
    case Op::transpose: return transpose(graph, inner.inputs[0], composed(permutation_of(inner), permutation_of(node)));
    default: return std::nullopt;
  }
}

// A sum or maximum over axes of size 1 is its operand, reshaped.
std::optional<Value> reduction_of_one(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node& node = graph.node(id);
  if (op_class(node.op) != OpClass::reduction) return std::nullopt;
  const Shape& shape = graph.type(node.inputs[0]).shape;
  for (const std::int64_t axis : node.attributes.get<std::vector<std::int64_t>>("axes")) {
    if (shape[normalise_axis(axis, shape.rank())] != 1) return std::nullopt;
  }
  rewriter.insert_before(id);
  return reshape(graph, node.inputs[0], graph.type(node.outputs[0]).shape);
}

std::optional<Value> simpler(Graph& graph, Rewriter& rewriter, NodeId id) {
  const Node& node = graph.node(id);
  if (node.outputs.size() != 1) return std::nullopt;
  const std::optional<Value> same = equal_operand(graph, node);
  if (same && graph.type(*same) == graph.type(node.outputs[0])) return same;
  if (const std::optional<Value> value = constant_result(graph, rewriter, id)) return value;
  if (const std::optional<Value> view = folded_views(graph, rewriter, id)) return view;
  return reduction_of_one(graph, rewriter, id);
}

// Values that the next walk may simplify further: by id, the values that replaced others in this walk, and their views.
using Changed = std::vector<bool>;

// Visits the nodes that read one of these values, and all nodes from `first` on.
bool simplify_once(Graph& graph, Rewriter& rewriter, Changed& changed, NodeId first) {
  Changed next;
  changed.resize(graph.value_count());
  for (const NodeId id : nodes_of(graph)) {
    const Node& node = graph.node(id);
    const bool is_visited =
        id >= first || std::ranges::any_of(node.inputs, [&](Value value) { return changed[value.id]; });
    if (!is_visited) continue;
    if (op_class(node.op) == OpClass::view) {
      for (const Value value : node.outputs) changed[value.id] = true;
    }
    // A node whose operand changed in this walk is visited again in the next.
    const bool is_stale =
        std::ranges::any_of(node.inputs, [&](Value value) { return rewriter.is_removed(graph.producer(value)); });
    if (is_stale) continue;
    const std::optional<Value> value = simpler(graph, rewriter, id);
    if (!value) continue;
    rewriter.replace(id, *value);
    if (next.size() <= value->id) next.resize(graph.value_count());
    next[value->id] = true;
  }
  changed = std::move(next);
  return rewriter.finish();
}

}  // namespace

bool simplify_algebra(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  Changed changed;
  NodeId first{0}, end = next_node(graph);
  bool is_changed = false;
  for (; simplify_once(graph, rewriter, changed, first); end = next_node(graph)) {
    first = end;
    is_changed = true;
  }
  return is_changed;
}

}  // namespace ridgepoint
