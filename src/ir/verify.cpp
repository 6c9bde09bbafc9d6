// verify(): the structural rules of a graph. check_types() (ops/rule.cpp) checks the shape rules of the ops.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "ir/queries.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

[[noreturn]] void broken(const Graph& graph, const Node& node, const std::string& what) {
  std::string where = "'" + std::string(name(node.op)) + "'";
  if (!node.outputs.empty()) where += " defining %" + std::to_string(node.outputs[0].id);
  if (!graph.scope_name(node).empty()) where += " in " + graph.scope_name(node);
  throw Error("graph '" + graph.name + "' is malformed at " + where + ": " + what);
}

void check_arity(const Graph& graph, const Node& node) {
  const auto complain = [&](int declared, std::size_t found, const char* what) {
    broken(graph, node, std::to_string(found) + " " + what + " found, the op has " + std::to_string(declared));
  };
  if (!takes_operands(node.op, node.inputs.size())) complain(input_count(node.op), node.inputs.size(), "inputs");
  const int outputs = output_count(node.op);
  if (outputs >= 0 && node.outputs.size() != static_cast<std::size_t>(outputs))
    complain(outputs, node.outputs.size(), "outputs");
  if (node.outputs.empty()) broken(graph, node, "it has no results");
}

void check_input(const Graph& graph, const Node& node, std::unordered_set<std::string>& names) {
  const auto input_name = node.attributes.get_or<std::string>("name", "");
  if (!node.attributes.contains("name")) broken(graph, node, "an input has no name");
  for (const StoredTensor& tensor : stored_tensors(graph, node)) {
    if (!names.insert(tensor.name).second) broken(graph, node, "two inputs have the name '" + tensor.name + "'");
  }
  const auto role = node.attributes.get_or<std::string>("role", "");
  if (!role_from_name(role)) {
    broken(graph, node,
           "the role of input '" + input_name + "' is '" + role + "'; it must be parameter, state, data or constant");
  }
}

// A body computes on elements and rows, which may be those of a product; a composite may end that, beside other columns
// of the product. No op reads or writes anything else.
void check_computation(const Graph& graph, const Node& node) {
  const Graph& body = node.body->graph;
  verify(body);
  const bool has_product = std::ranges::any_of(body.order(), [&](NodeId id) { return body.node(id).op == Op::matmul; });
  for (const NodeId id : body.order()) {
    const Op op = body.node(id).op;
    const OpClass kind = op_class(op);
    const bool may_stand = kind == OpClass::elementwise || kind == OpClass::reduction || kind == OpClass::view ||
                           op == Op::matmul || op == Op::input || op == Op::constant ||
                           (has_product && (kind == OpClass::composite || kind == OpClass::placement));
    if (!may_stand) broken(graph, node, "its body contains '" + std::string(name(op)) + "'");
  }
  if (!body.updates().empty()) broken(graph, node, "its body updates an input");
}

void check_body(const Graph& graph, const Node& node) {
  const Graph& body = node.body->graph;
  const auto check = [&](std::span<const Value> values, std::size_t count, const char* what, auto find) {
    if (count != values.size()) {
      broken(graph, node,
             "its body has " + std::to_string(count) + " " + what + ", the node " + std::to_string(values.size()));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::optional<Value> inner = find(i);
      if (!inner) broken(graph, node, "its body has no " + std::string(what) + " '" + std::to_string(i) + "'");
      if (body.type(*inner) == graph.type(values[i])) continue;
      broken(graph, node,
             std::string(what) + " " + std::to_string(i) + " of its body is " + body.type(*inner).to_string() +
                 ", that of the node " + graph.type(values[i]).to_string());
    }
  };
  check(node.inputs, body.inputs().size(), "inputs", [&](std::size_t i) { return body.find_input(std::to_string(i)); });
  check(node.outputs, body.outputs().size(), "outputs", [&](std::size_t i) {
    const Output& output = body.outputs()[i];
    return output.name == std::to_string(i) ? std::optional(output.value) : std::nullopt;
  });
}

void check_updates(const Graph& graph) {
  std::unordered_set<std::uint32_t> targets;
  for (const Update& update : graph.updates()) {
    const Node& target = graph.producer_node(update.input);
    if (target.op != Op::input) broken(graph, target, "only an input can be updated");
    const Role role = input_role(target);
    if (role != Role::parameter && role != Role::state) {
      broken(graph, target,
             "an input of role '" + std::string(name(role)) + "' is updated; only parameters and state can be updated");
    }
    if (!targets.insert(update.input.id).second) broken(graph, target, "it is updated twice");
    if (!(graph.type(update.input) == graph.type(update.value))) {
      broken(graph, graph.producer_node(update.value),
             "it updates " + graph.type(update.input).to_string() + " with " + graph.type(update.value).to_string());
    }
  }
}

}  // namespace

void verify_operands(const Graph& graph) {
  const std::vector<std::size_t> position = positions(graph);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!node.alive) broken(graph, node, "an erased node is in the schedule");
    check_arity(graph, node);
    for (const Value value : node.inputs) {
      if (!graph.contains(value)) broken(graph, node, "operand %" + std::to_string(value.id) + " does not exist");
      if (position[graph.producer(value).id] >= position[id.id])
        broken(graph, node, "operand %" + std::to_string(value.id) + " is defined later");
    }
  }
  for (const Output& output : graph.outputs()) {
    if (!graph.contains(output.value))
      throw Error("output '" + output.name + "' of graph '" + graph.name + "' is not a value of the graph");
  }
  for (const Update& update : graph.updates()) {
    if (!graph.contains(update.input) || !graph.contains(update.value))
      throw Error("graph '" + graph.name + "' has an update of a value that does not exist");
  }
}

void verify(const Graph& graph) {
  verify_operands(graph);
  std::unordered_set<std::string> names;
  std::unordered_set<const FusedBody*> bodies;  // checked ones
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::input) check_input(graph, node, names);
    if ((node.op == Op::fused) != (node.body != nullptr))
      broken(graph, node, "fused nodes, and no others, have a body");
    if (node.body == nullptr) continue;
    if (bodies.insert(node.body.get()).second) check_computation(graph, node);
    check_body(graph, node);
  }
  std::unordered_set<std::string> output_names;
  bool has_loss = false;
  for (const Output& output : graph.outputs()) {
    if (!output_names.insert(output.name).second)
      throw Error("graph '" + graph.name + "' has two outputs with the name '" + output.name + "'");
    if (output.role == OutputRole::loss && std::exchange(has_loss, true))
      throw Error("output '" + output.name + "' is the second loss of graph '" + graph.name + "'");
  }
  check_updates(graph);
  check_types(graph);
}

}  // namespace ridgepoint
