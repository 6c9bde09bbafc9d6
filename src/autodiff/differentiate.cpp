#include "ridgepoint/autodiff/autodiff.h"

#include <algorithm>

#include "ir/rewriter.h"
#include "ops/rule.h"
#include "ops/shape_rules.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// Reverse-mode differentiation. Gradients are stored by value id; those of several uses of a value are added.
class Backpropagation {
 public:
  Backpropagation(Graph& graph, std::span<const Value> wrt) : graph_(graph), active_(graph.value_count()) {
    for (const Value value : wrt) active_[value.id] = true;
    for (const NodeId id : graph.order()) mark_active(graph.node(id));
  }

  // Adds `gradient` to the gradient of `value`.
  void accumulate(Value value, Value gradient) {
    if (gradients_.size() <= value.id) gradients_.resize(graph_.value_count());
    Value& sum = gradients_[value.id];
    sum = sum.valid() ? add(graph_, sum, gradient) : gradient;
  }

  // Visits the nodes, which are in topological order, from last to first.
  void sweep(std::span<const NodeId> nodes) {
    for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) visit(*at);
  }

  Value gradient(Value value) const { return value.id < gradients_.size() ? gradients_[value.id] : Value{}; }

 private:
  void mark_active(const Node& node) {
    if (std::ranges::none_of(node.inputs, [&](Value v) { return is_active(v); })) return;
    for (const Value value : node.outputs) {
      if (active_.size() <= value.id) active_.resize(graph_.value_count());
      if (is_floating(graph_.type(value).dtype)) active_[value.id] = true;
    }
  }

  bool is_active(Value value) const { return value.id < active_.size() && active_[value.id]; }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<Value> output_gradients;
    for (const Value value : node.outputs) output_gradients.push_back(gradient(value));
    const auto is_needed = [&](Value v) { return is_active(v); };
    if (std::ranges::none_of(output_gradients, &Value::valid) || std::ranges::none_of(node.inputs, is_needed)) return;
    graph_.set_scope(graph_.scope_name(node));
    const OpRule& op_rule = rule(node.op);
    const bool needs_decomposition = std::ranges::any_of(
        std::span(node.inputs).subspan(std::min(op_rule.first_constant_operand, node.inputs.size())), is_needed);
    std::vector<Value> input_gradients;
    const NodeId first_new = next_node(graph_);
    if (op_rule.vjp != nullptr && !needs_decomposition) input_gradients = op_rule.vjp(graph_, node, output_gradients);
    set_derivative_origin(node, first_new);
    if (input_gradients.empty()) return differentiate_decomposition(node, output_gradients);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (input_gradients[i].valid() && is_active(node.inputs[i])) accumulate(node.inputs[i], input_gradients[i]);
    }
  }

  // The origin of a derivative is the composite that is differentiated, or the origin of the differentiated node.
  void set_derivative_origin(const Node& node, NodeId first_new) {
    const std::optional<Op> origin = op_class(node.op) == OpClass::composite ? node.op : node.origin;
    if (origin) set_origin(graph_, first_new, *origin);
  }

  // Computes the composite again from simpler ops, in the backward phase, and differentiates those.
  void differentiate_decomposition(const Node& node, std::span<const Value> output_gradients) {
    const OpRule& op_rule = rule(node.op);
    if (op_rule.decompose == nullptr) {
      throw Error("op '" + std::string(name(node.op)) + "' in '" + graph_.scope_name(node) + "' has no derivative");
    }
    const std::size_t first = graph_.order().size();
    const NodeId first_new = next_node(graph_);
    const std::vector<Value> values = op_rule.decompose(graph_, node);
    set_derivative_origin(node, first_new);
    const std::vector<NodeId> made(graph_.order().begin() + static_cast<std::ptrdiff_t>(first), graph_.order().end());
    for (const NodeId id : made) mark_active(graph_.node(id));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (output_gradients[i].valid()) accumulate(values[i], output_gradients[i]);
    }
    sweep(made);
  }

  Graph& graph_;
  std::vector<bool> active_;
  std::vector<Value> gradients_;
};

// Appends the backward graph of `y`. `gradient` is called in the backward phase and returns the gradient of y.
template <typename MakeGradient>
std::vector<Value> append_backward(Graph& graph, Value y, std::span<const Value> wrt, MakeGradient gradient) {
  const GraphSettings settings(graph);
  graph.set_insertion_at_end();
  const std::vector<NodeId> forward = nodes_of(graph);
  Backpropagation backpropagation(graph, wrt);
  graph.set_phase(Phase::backward);
  graph.set_scope(graph.scope_name(graph.producer_node(y)));
  backpropagation.accumulate(y, gradient());
  backpropagation.sweep(forward);

  std::vector<Value> gradients;
  for (const Value value : wrt) {
    const Value found = backpropagation.gradient(value);
    gradients.push_back(found.valid() ? found : zeros(graph, graph.type(value)));
  }
  return gradients;
}

}  // namespace

std::vector<Value> differentiate(Graph& graph, Value loss, std::span<const Value> wrt) {
  const TensorType type = graph.type(loss);
  if (type.elements() != 1 || !is_floating(type.dtype)) {
    throw Error("cannot differentiate " + type.to_string() + ": the loss must be one floating element; reduce it first",
                ErrorKind::usage);
  }
  return append_backward(graph, loss, wrt,
                         [&] { return broadcast(graph, constant(graph, 1.0, type.dtype), type.shape); });
}

std::vector<Value> differentiate(Graph& graph, Value y, Value gradient, std::span<const Value> wrt) {
  const TensorType& type = graph.type(y);
  if (!is_floating(type.dtype) || !(graph.type(gradient) == type)) {
    throw Error("cannot differentiate " + type.to_string() + " with a gradient of " + graph.type(gradient).to_string() +
                    ": both must have the same floating type",
                ErrorKind::usage);
  }
  return append_backward(graph, y, wrt, [&] { return gradient; });
}

}  // namespace ridgepoint
