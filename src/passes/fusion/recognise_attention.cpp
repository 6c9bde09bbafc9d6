// Replaces attention in primitive ops (attention_pattern.h) by the attention op where the device has kernels for it and
// for its derivative. It runs before differentiation, so that backward does not read the scores.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/rewriter.h"
#include "passes/fusion/attention_pattern.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

Value build(Graph& graph, const ScaledTranspose& operand) {
  Value value = operand.base;
  if (graph.type(value).dtype != operand.dtype) value = cast(graph, value, operand.dtype);
  return is_identity(operand.permutation) ? value : transpose(graph, value, operand.permutation);
}

// The innermost module that contains both scopes.
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

// Inserts the op before the last matmul; empty where the device has no kernel for it.
std::optional<Value> make_attention(Graph& graph, Rewriter& rewriter, const AttentionPattern& pattern,
                                    const PassOptions& options) {
  const NodeId last_product = pattern.nodes.front();
  const Node& last = graph.node(last_product);
  const Node& first = graph.node(pattern.nodes.back());
  rewriter.insert_before(last_product, common_scope(graph.scope_name(last), graph.scope_name(first)));
  const Value q = build(graph, pattern.q);
  ScaledTranspose keys = pattern.keys;
  keys.permutation = with_last_two_swapped(std::move(keys.permutation));
  const Value k = build(graph, keys);
  const Value o = attention(graph, q, k, build(graph, pattern.v), pattern.form).first;
  if (!has_kernels(graph, graph.producer_node(o), options)) {
    rewriter.erase_inserted();
    return std::nullopt;
  }
  const TensorType& type = graph.type(last.outputs[0]);
  if (type.shape.rank() != graph.type(o).shape.rank()) return reshape(graph, o, type.shape);  // heads share keys
  graph.set_type(o, type);                                                                    // with its labels
  return o;
}

}  // namespace

bool recognise_attention(Graph& graph, const PassOptions& options) {
  if (options.level == Compile::off) return false;
  // `readers` stay valid, because the graph changes only in finish() and patterns do not overlap.
  const Readers readers(graph);
  Rewriter rewriter(graph);
  for (const NodeId id : nodes_of(graph)) {
    const std::optional<AttentionPattern> pattern = find_attention(graph, readers, id);
    if (!pattern) continue;
    const std::optional<Value> o = make_attention(graph, rewriter, *pattern, options);
    if (!o) continue;
    rewriter.replace(graph.node(id).outputs[0], *o);
    for (const NodeId node : pattern->nodes) rewriter.remove(node);
  }
  return rewriter.finish();
}

}  // namespace ridgepoint
