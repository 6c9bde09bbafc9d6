// Replaces attention with sinks by attention without sinks and a correction of its result o and log-sum-exp l: the sink
// s of a head takes the part exp(s) / (exp(l) + exp(s)) of each row. Nodes with kPlainAttribute stay, because they
// store their scores.
#include <vector>

#include "ir/rewriter.h"
#include "ops/attention_form.h"
#include "ops/rule.h"
#include "ops/shape_rules.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

std::vector<Value> split(Graph& graph, const Node& node) {
  const std::vector<Value> operands = node.inputs;
  const std::vector<Value> keys(operands.begin(), operands.begin() + 3);
  const std::vector<Value> alone = graph.node(make_node(graph, Op::attention, keys, node.attributes)).outputs;
  const DType wide = graph.type(alone[1]).dtype;
  const Value sink = cast_to(graph, sink_column(graph, operands[3]), wide);
  const Value top = maximum(graph, alone[1], sink);
  const Value of_sink = exp(graph, sub(graph, sink, top));
  const Value sum = add(graph, exp(graph, sub(graph, alone[1], top)), of_sink);
  const Value both = add(graph, top, log(graph, sum));
  const Shape rows = graph.type(both).shape;
  std::vector<Dim> column(rows.dims().begin(), rows.dims().end());
  column.push_back(Dim(1));
  const Value part = reshape(graph, exp(graph, sub(graph, alone[1], both)), Shape(column));
  const DType dtype = graph.type(alone[0]).dtype;
  return {cast_to(graph, mul(graph, cast_to(graph, alone[0], wide), part), dtype), both};
}

}  // namespace

bool split_sinks(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (const NodeId id : nodes_of(graph)) {
    if (!has_sinks(graph.node(id)) || graph.node(id).attributes.get_or(kPlainAttribute, false)) continue;
    rewriter.insert_before(id);
    const Node node = graph.node(id);
    rewriter.replace(id, split(graph, node));
  }
  return rewriter.finish();
}

}  // namespace ridgepoint
