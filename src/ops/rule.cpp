#include "ops/rule.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "core/checked.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/node_key.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {

#define RIDGEPOINT_OP(name, ...) extern const OpRule rule_##name;
#include "ridgepoint/ir/op_list.def"
#undef RIDGEPOINT_OP

const OpRule& rule(Op op) {
  static constexpr std::array<const OpRule*, kOpCount> kRules = {
#define RIDGEPOINT_OP(name, ...) &rule_##name,
#include "ridgepoint/ir/op_list.def"
#undef RIDGEPOINT_OP
  };
  return *kRules[static_cast<std::size_t>(op)];
}

std::string_view operation_name(const Node& node) {
  return node.body != nullptr ? std::string_view(node.body->graph.name) : name(node.op);
}

namespace {

std::vector<TensorType> input_types(const Graph& graph, std::span<const Value> inputs) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const Value value : inputs) types.push_back(graph.type(value));
  return types;
}

std::string describe(Op op, std::span<const TensorType> inputs) {
  std::string text = std::string(name(op)) + "(";
  for (std::size_t i = 0; i < inputs.size(); ++i) text += (i == 0 ? "" : ", ") + inputs[i].to_string();
  return text + ")";
}

std::vector<TensorType> infer(Op op, std::span<const TensorType> inputs, const Attributes& attributes) {
  if (!takes_operands(op, inputs.size()))
    throw Error(describe(op, inputs) + ": the op takes " + std::to_string(input_count(op)) + " operands");
  try {
    check_attributes(op, attributes);
    return rule(op).infer({op, inputs, attributes});
  } catch (const Error& error) {
    throw Error(describe(op, inputs) + ": " + error.what(), error.kind());
  }
}

// The elements in memory that a value reads: a broadcast reads each once, a part of a split only its own, constants
// have no memory.
std::int64_t stored_elements(const Graph& graph, Value value) {
  const Value root = view_root(graph, value);
  if (graph.producer_node(root).op == Op::constant) return 0;
  return std::min(graph.type(value).elements(), graph.type(root).elements());
}

constexpr std::string_view kBytes = "the number of bytes that a node reads and writes";
constexpr std::string_view kFlops = "the number of operations of the graph";

std::int64_t flops_of(const Graph& graph, const Node& node) {
  switch (traits(node.op).arithmetic) {
    case Arithmetic::none: break;
    case Arithmetic::each_result: return graph.type(node.outputs[0]).elements();
    case Arithmetic::each_operand: return graph.type(node.inputs[0]).elements();
    case Arithmetic::decomposition: return flops_of(body_of(graph, node));
    case Arithmetic::formula: return rule(node.op).flops(graph, node);
  }
  return 0;
}

std::int64_t default_bytes(const Graph& graph, const Node& node) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    bool repeated = false;  // x * x reads x once
    for (std::size_t j = 0; j < i; ++j) repeated = repeated || node.inputs[j] == node.inputs[i];
    const auto size = static_cast<std::int64_t>(size_bytes(graph.type(node.inputs[i]).dtype));
    if (!repeated)
      bytes = checked_sum({bytes, checked_product({stored_elements(graph, node.inputs[i]), size}, kBytes)}, kBytes);
  }
  for (const Value value : node.outputs)
    bytes = checked_sum({bytes, static_cast<std::int64_t>(graph.type(value).bytes())}, kBytes);
  return bytes;
}

}  // namespace

std::optional<std::size_t> addend_operand(const Node& node) {
  if (node.op == Op::matmul_add) return 2;
  return node.op == Op::scaled_matmul && node.inputs.size() > 4 ? std::optional<std::size_t>(4) : std::nullopt;
}

NodeId make_node(Graph& graph, Op op, std::vector<Value> inputs, Attributes attributes, const Source& source) {
  const std::vector<TensorType> outputs = infer(op, input_types(graph, inputs), attributes);
  graph.set_source(source.file_name(), source.line());
  return graph.add_node(op, inputs, outputs, std::move(attributes));
}

Value make_value(Graph& graph, Op op, std::vector<Value> inputs, Attributes attributes, const Source& source) {
  return graph.node(make_node(graph, op, std::move(inputs), std::move(attributes), source)).outputs[0];
}

void check_types(const Graph& graph) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::input || node.op == Op::fused) {  // the types are declared, or those of the body
      check_attributes(node.op, node.attributes);
      continue;
    }
    const std::vector<TensorType> operands = input_types(graph, node.inputs);
    const std::vector<TensorType> expected = infer(node.op, operands, node.attributes);
    const std::string where = "graph '" + graph.name + "': ";
    if (expected.size() != node.outputs.size()) {
      throw Error(where + describe(node.op, operands) + " has " + std::to_string(expected.size()) +
                  " results; the graph declares " + std::to_string(node.outputs.size()));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorType& found = graph.type(node.outputs[i]);
      if (expected[i] == found) continue;
      throw Error(where + "output " + std::to_string(i) + " of " + describe(node.op, operands) + " is " +
                  expected[i].to_string() + "; the graph declares " + found.to_string());
    }
  }
}

Cost cost(const Graph& graph, const Node& node) { return {flops_of(graph, node), bytes_of(graph, node)}; }

std::int64_t bytes_of(const Graph& graph, const Node& node) {
  if (!launches(node.op)) return 0;
  const OpRule& r = rule(node.op);
  return r.bytes != nullptr ? r.bytes(graph, node) : default_bytes(graph, node);
}

std::int64_t flops_of(const Graph& graph) {
  std::int64_t total = 0;
  std::unordered_map<std::string, std::int64_t> known_flops;  // decomposes one of equal nodes
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (traits(node.op).arithmetic != Arithmetic::decomposition) {
      total = checked_sum({total, flops_of(graph, node)}, kFlops);
      continue;
    }
    const auto [known, is_new] = known_flops.try_emplace(typed_key(graph, node));
    if (is_new) known->second = flops_of(graph, node);
    total = checked_sum({total, known->second}, kFlops);
  }
  return total;
}

std::vector<Value> decompose_fully(Graph& graph, const Node& node) {
  const GraphSettings settings(graph);
  graph.set_phase(node.phase);
  graph.set_scope(graph.scope_name(node));
  const NodeId first_new = next_node(graph);
  std::vector<Value> values = rule(node.op).decompose(graph, node);
  // Decomposes the composites among the new nodes, which nodes outside of the decomposition do not read yet.
  std::vector<NodeId> replaced;
  std::vector<std::pair<Value, Value>> replacements;
  for (std::uint32_t id = first_new.id; id < graph.node_capacity(); ++id) {
    const Node& inner = graph.node(NodeId{id});
    if (op_class(inner.op) != OpClass::composite) continue;
    graph.set_insertion_before(NodeId{id});
    const std::vector<Value> inner_values = decompose_fully(graph, inner);
    for (std::size_t i = 0; i < inner_values.size(); ++i) replacements.emplace_back(inner.outputs[i], inner_values[i]);
    replaced.push_back(NodeId{id});
  }
  if (op_class(node.op) == OpClass::composite) set_origin(graph, first_new, node.op);
  if (replaced.empty()) return values;
  const auto resolve = [&](Value& value) {
    for (const auto& [from, to] : replacements) {
      if (value == from) value = to;
    }
  };
  std::ranges::for_each(values, resolve);
  for (std::uint32_t id = first_new.id; id < graph.node_capacity(); ++id)
    std::ranges::for_each(graph.node(NodeId{id}).inputs, resolve);
  graph.erase(replaced);
  return values;
}

Graph body_of(const Graph& graph, const Node& node) {
  if (node.body != nullptr) return node.body->graph;
  Graph body;
  body.name = std::string(name(node.op));
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Node& producer = graph.producer_node(node.inputs[i]);
    if (producer.op == Op::constant) {
      inputs.push_back(make_value(body, Op::constant, {}, producer.attributes));
    } else {
      inputs.push_back(input(body, std::to_string(i), graph.type(node.inputs[i]), Role::data));
    }
  }
  const NodeId copy_id = make_node(body, node.op, inputs, node.attributes);
  std::vector<Value> outputs = body.node(copy_id).outputs;
  if (op_class(node.op) == OpClass::composite) {
    const Node composite = body.node(copy_id);
    outputs = decompose_fully(body, composite);
    const NodeId gone[] = {copy_id};
    body.erase(gone);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) body.add_output(std::to_string(i), outputs[i]);
  return body;
}

}  // namespace ridgepoint
