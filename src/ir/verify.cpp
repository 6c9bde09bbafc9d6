// The structural rules of a graph. Types against shape rules are check_types(), which knows the ops.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "ridgepoint/error.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {
namespace {

[[noreturn]] void broken(const Graph& graph, const Node& node, const std::string& what) {
  std::string where = "'" + std::string(name(node.op)) + "'";
  if (!node.outputs.empty()) where += " making %" + std::to_string(node.outputs[0].id);
  if (!graph.scope_name(node).empty()) where += " in " + graph.scope_name(node);
  throw Error("graph '" + graph.name + "' is malformed at " + where + ": " + what);
}

void check_arity(const Graph& graph, const Node& node) {
  const auto check = [&](int declared, std::size_t found, const char* what) {
    if (declared >= 0 && static_cast<std::size_t>(declared) != found) {
      broken(graph, node, std::to_string(found) + " " + what + " where the op has " + std::to_string(declared));
    }
  };
  check(input_count(node.op), node.inputs.size(), "inputs");
  check(output_count(node.op), node.outputs.size(), "outputs");
  if (node.outputs.empty()) broken(graph, node, "it makes no value");
}

// Steps of nodes in the order, or SIZE_MAX where a node is not live.
std::vector<std::size_t> positions(const Graph& graph) {
  std::vector<std::size_t> position(graph.node_capacity(), SIZE_MAX);
  std::size_t step = 0;
  for (const NodeId id : graph.order()) position[id.id] = step++;
  return position;
}

void check_updates(const Graph& graph, const std::vector<std::size_t>& position) {
  std::unordered_set<std::uint32_t> targets;
  for (const Update& update : graph.updates()) {
    if (!graph.contains(update.input) || !graph.contains(update.value))
      throw Error("graph '" + graph.name + "' updates a value it does not have");
    const Node& target = graph.producer_node(update.input);
    const Node& maker = graph.producer_node(update.value);
    if (target.op != Op::input) broken(graph, target, "only an input can be updated");
    if (!targets.insert(update.input.id).second) broken(graph, target, "it is updated twice");
    if (!(graph.type(update.input) == graph.type(update.value))) {
      broken(graph, maker,
             "it updates " + graph.type(update.input).to_string() + " with " + graph.type(update.value).to_string());
    }
    const std::size_t made_at = position[graph.producer(update.value).id];
    for (const NodeId id : graph.order()) {
      const Node& user = graph.node(id);
      if (position[id.id] > made_at &&
          std::find(user.inputs.begin(), user.inputs.end(), update.input) != user.inputs.end()) {
        broken(graph, user, "it reads an updated input's old value after the new one is made");
      }
    }
  }
}

}  // namespace

void verify(const Graph& graph) {
  const std::vector<std::size_t> position = positions(graph);
  std::unordered_set<std::string> names;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!node.alive) broken(graph, node, "an erased node is still scheduled");
    check_arity(graph, node);
    for (const Value value : node.inputs) {
      if (!graph.contains(value)) broken(graph, node, "operand %" + std::to_string(value.id) + " does not exist");
      if (position[graph.producer(value).id] >= position[id.id])
        broken(graph, node, "operand %" + std::to_string(value.id) + " is made later");
    }
    if (node.op == Op::input && !names.insert(node.attributes.get<std::string>("name")).second) {
      broken(graph, node, "a second input is called '" + node.attributes.get<std::string>("name") + "'");
    }
  }
  std::unordered_set<std::string> output_names;
  for (const Output& output : graph.outputs()) {
    if (!graph.contains(output.value))
      throw Error("output '" + output.name + "' of graph '" + graph.name + "' is not a value of it");
    if (!output_names.insert(output.name).second)
      throw Error("graph '" + graph.name + "' has two outputs called '" + output.name + "'");
  }
  check_updates(graph, position);
}

}  // namespace ridgepoint
