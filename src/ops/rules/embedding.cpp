// embedding gathers rows of a table. embedding_backward adds each gradient row to the table row of its index.
#include "core/checked.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

void require_indices(const TensorType& type) { require(type.dtype == DType::int64, "indices must be int64"); }

std::vector<TensorType> infer_embedding(const ShapeContext& context) {
  const TensorType& weight = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  require(is_floating(weight.dtype) && weight.shape.rank() == 2, "the table must be floating [V,D]");
  require_indices(indices);
  std::vector<Dim> dims(indices.shape.dims().begin(), indices.shape.dims().end());
  dims.push_back(weight.shape.dim(1));
  return {{weight.dtype, Shape(dims)}};
}

std::vector<TensorType> infer_embedding_backward(const ShapeContext& context) {
  const TensorType& gradient = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  require_indices(indices);
  require(is_floating(gradient.dtype) && gradient.shape.rank() == indices.shape.rank() + 1,
          "the gradient must be [...,D] over indices [...]");
  for (int i = 0; i < indices.shape.rank(); ++i)
    require(gradient.shape[i] == indices.shape[i], "the gradient must be [...,D] over indices [...]");
  return {{gradient.dtype, Shape{Dim(context.attributes.get<std::int64_t>("rows"), 'V'), gradient.shape.dim(-1)}}};
}

std::vector<Value> vjp_embedding(Graph& graph, const Node& node, std::span<const Value> g) {
  return {embedding_backward(graph, g[0], node.inputs[1], graph.type(node.inputs[0]).shape[0]), Value{}};
}

std::vector<Value> vjp_embedding_backward(Graph& graph, const Node& node, std::span<const Value> g) {
  return {embedding(graph, g[0], node.inputs[1]), Value{}};
}

// A gather reads each row that it writes, and no other rows.
std::int64_t bytes_embedding(const Graph& graph, const Node& node) {
  const auto bytes = [&](Value value) { return static_cast<std::int64_t>(graph.type(value).bytes()); };
  return checked_sum({bytes(node.inputs[1]), bytes(node.outputs[0]), bytes(node.outputs[0])},
                     "the number of bytes of an embedding");
}

std::int64_t flops_embedding_backward(const Graph& graph, const Node& node) {
  return graph.type(node.inputs[0]).elements();
}

}  // namespace

extern const OpRule rule_embedding{.infer = infer_embedding, .vjp = vjp_embedding, .bytes = bytes_embedding};
extern const OpRule rule_embedding_backward{
    .infer = infer_embedding_backward, .vjp = vjp_embedding_backward, .flops = flops_embedding_backward};

Value embedding(Graph& graph, Value weight, Value indices, const Source& source) {
  return make_value(graph, Op::embedding, {weight, indices}, {}, source);
}

Value embedding_backward(Graph& graph, Value gradient, Value indices, std::int64_t rows, const Source& source) {
  return make_value(graph, Op::embedding_backward, {gradient, indices}, {{"rows", rows}}, source);
}

}  // namespace ridgepoint
