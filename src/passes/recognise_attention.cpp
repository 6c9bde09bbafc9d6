// Turns attention written in plain ops (attention_pattern.h) into the attention op where the device has kernels for it
// and for its derivative. For a forward graph: differentiated after this, it keeps nothing of the scores' size for
// backward. Once it has been differentiated, backward reads the scores, and they stay.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/attention_pattern.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

Value made(Graph& graph, const ScaledTranspose& operand) {
  Value value = operand.base;
  if (graph.type(value).dtype != operand.dtype) value = cast(graph, value, operand.dtype);
  const bool is_turned = !std::ranges::is_sorted(operand.permutation);
  return is_turned ? transpose(graph, value, operand.permutation) : value;
}

// The innermost module that both scopes lie in.
std::string common_scope(const std::string& a, const std::string& b) {
  const auto [end, end_of_b] = std::ranges::mismatch(a, b);
  const auto ends = [](const std::string& text, auto at) { return at == text.end() || *at == '.'; };
  if (ends(a, end) && ends(b, end_of_b)) return {a.begin(), end};
  const std::string shared(a.begin(), end);
  const std::size_t dot = shared.rfind('.');
  return dot == std::string::npos ? "" : shared.substr(0, dot);
}

bool has_kernels(const Graph& graph, const Node& attention, const PassOptions& options) {
  Node backward;
  backward.op = Op::attention_backward;
  backward.inputs = {attention.outputs[0]};
  backward.inputs.insert(backward.inputs.end(), attention.inputs.begin(), attention.inputs.end());
  backward.inputs.insert(backward.inputs.end(), attention.outputs.begin(), attention.outputs.end());
  backward.attributes = attention.attributes;
  return options.target.has_kernel(graph, attention) && options.target.has_kernel(graph, backward);
}

// Makes the op where the last product stands, whose result it is; empty where the device lacks a kernel for it.
std::optional<Value> make_attention(Graph& graph, AttentionPattern pattern, const PassOptions& options) {
  const NodeId last_product = pattern.nodes.front();
  const Node& last = graph.node(last_product);
  graph.set_phase(last.phase);
  graph.set_scope(common_scope(graph.scope_name(last), graph.scope_name(graph.node(pattern.nodes.back()))));
  graph.set_insertion_before(last_product);
  const auto first_made = static_cast<std::uint32_t>(graph.node_capacity());
  const Value q = made(graph, pattern.q);
  std::swap(pattern.keys.permutation.end()[-1], pattern.keys.permutation.end()[-2]);
  const Value k = made(graph, pattern.keys);
  const Value o = attention(graph, q, k, pattern.v, pattern.scale, pattern.causal).first;
  graph.node(graph.producer(o)).source = last.source;
  if (!has_kernels(graph, graph.producer_node(o), options)) {
    std::vector<NodeId> refused;
    for (std::uint32_t id = first_made; id < graph.node_capacity(); ++id) refused.push_back({id});
    graph.erase(refused);
    return std::nullopt;
  }
  graph.set_type(o, graph.type(last.outputs[0]));  // with its labels
  return o;
}

}  // namespace

bool recognise_attention(Graph& graph, const PassOptions& options) {
  const Phase phase = graph.phase();
  const std::string scope = graph.scope();
  // The graph is rewritten once, at the end: no node of one pattern is read by another's.
  const Readers readers(graph);
  std::vector<std::pair<Value, Value>> replacements;
  std::vector<NodeId> replaced;
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (const NodeId id : order) {
    const std::optional<AttentionPattern> pattern = find_attention(graph, readers, id);
    if (!pattern) continue;
    const std::optional<Value> o = make_attention(graph, *pattern, options);
    if (!o) continue;
    replacements.emplace_back(graph.node(id).outputs[0], *o);
    replaced.insert(replaced.end(), pattern->nodes.begin(), pattern->nodes.end());
  }
  graph.replace_uses(replacements);
  graph.erase(replaced);
  graph.set_phase(phase);
  graph.set_scope(scope);
  return !replaced.empty();
}

}  // namespace ridgepoint
