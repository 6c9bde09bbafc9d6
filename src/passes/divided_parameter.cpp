#include "passes/divided_parameter.h"

#include <algorithm>

#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {

bool is_output(const Graph& graph, Value value) {
  return std::ranges::find(graph.outputs(), value, &Output::value) != graph.outputs().end();
}

void divide_parameter(Graph& graph, Value parameter, const ParallelOptions& parallel,
                      const std::vector<NodeId>& readers) {
  const GraphSettings settings(graph);
  const TensorType type = graph.type(parameter);
  const NodeId id = graph.producer(parameter);
  Node& stored = graph.node(id);
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : type.shape.dims()) sizes.push_back(dim.size);
  stored.attributes.set(kDeclaredShape, std::move(sizes));
  stored.attributes.set(kPart, parallel.rank);
  graph.set_type(parameter, {type.dtype, Shape{type.elements() / parallel.data}});
  graph.set_phase(stored.phase);
  graph.set_scope(graph.scope_name(stored));
  const auto next = std::ranges::find(graph.order(), id) + 1;
  next == graph.order().end() ? graph.set_insertion_at_end() : graph.set_insertion_before(*next);
  const Value whole = reshape(graph, all_gather(graph, {parameter}, parallel.data)[0], type.shape);
  graph.set_type(whole, type);  // with its labels
  for (const NodeId reader : readers) std::ranges::replace(graph.node(reader).inputs, parameter, whole);
}

}  // namespace ridgepoint
