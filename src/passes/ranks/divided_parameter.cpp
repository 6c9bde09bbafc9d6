#include "passes/ranks/divided_parameter.h"

#include <algorithm>

#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {

bool is_output(const Graph& graph, Value value) {
  return std::ranges::find(graph.outputs(), value, &Output::value) != graph.outputs().end();
}

std::optional<DType> low_type_of(const Graph& graph, std::span<const NodeId> readers) {
  std::optional<DType> low;
  for (const NodeId reader : readers) {
    const Node& node = graph.node(reader);
    const DType dtype = graph.type(node.outputs[0]).dtype;
    if (node.op != Op::cast || !is_low(dtype) || low.value_or(dtype) != dtype) return std::nullopt;
    low = dtype;
  }
  return low;
}

Value with_padding(Graph& graph, Value x, std::int64_t elements) {
  const TensorType type = graph.type(x);
  const Value flat = reshape(graph, x, Shape{type.elements()});
  if (type.elements() == elements) return flat;
  const Value zero = constant(graph, 0, type.dtype);
  return concat(graph, {flat, copy(graph, broadcast(graph, zero, Shape{elements - type.elements()}))}, 0);
}

Value without_padding(Graph& graph, Value flat, const TensorType& type) {
  const std::int64_t padding = graph.type(flat).elements() - type.elements();
  const Value elements = padding == 0 ? flat : split(graph, flat, 0, {type.elements(), padding})[0];
  const Value value = reshape(graph, elements, type.shape);
  graph.set_type(value, {graph.type(flat).dtype, type.shape});  // with its labels
  return value;
}

void store_flat(Graph& graph, Value input, std::int64_t elements) {
  const TensorType type = graph.type(input);
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : type.shape.dims()) sizes.push_back(dim.size);
  graph.node(graph.producer(input)).attributes.set(kDeclaredShape, std::move(sizes));
  graph.set_type(input, {type.dtype, Shape{elements}});
}

void divide_parameter(Graph& graph, Value parameter, const ParallelOptions& parallel, std::int64_t vector,
                      std::span<const NodeId> readers) {
  const GraphSettings settings(graph);
  const TensorType type = graph.type(parameter);
  const NodeId id = graph.producer(parameter);
  store_flat(graph, parameter, part_elements(type.elements(), parallel.data, vector));
  Node& stored = graph.node(id);
  stored.attributes.set(kPart, parallel.rank);
  graph.set_phase(stored.phase);
  graph.set_scope(graph.scope_name(stored));
  graph.set_insertion_behind(id);
  const Value whole = without_padding(graph, all_gather(graph, {parameter}, parallel.data)[0], type);
  for (const NodeId reader : readers) std::ranges::replace(graph.node(reader).inputs, parameter, whole);
}

}  // namespace ridgepoint
