// embedding gathers rows of a table. embedding_backward adds each gradient row to the row of zeros of its index;
// embedding_backward_add to the row of an addend.
#include <algorithm>
#include <string>

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

void require_gradient(const ShapeContext& context) {
  const TensorType& gradient = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  require_indices(indices);
  require(is_floating(gradient.dtype) && gradient.shape.rank() == indices.shape.rank() + 1,
          "the gradient must be [...,D] over indices [...]");
  for (int i = 0; i < indices.shape.rank(); ++i)
    require(gradient.shape[i] == indices.shape[i], "the gradient must be [...,D] over indices [...]");
}

std::vector<TensorType> infer_embedding_backward(const ShapeContext& context) {
  require_gradient(context);
  const TensorType& gradient = context.inputs[0];
  return {{gradient.dtype, Shape{Dim(context.attributes.get<std::int64_t>("rows"), 'V'), gradient.shape.dim(-1)}}};
}

std::vector<TensorType> infer_embedding_backward_add(const ShapeContext& context) {
  require_gradient(context);
  const TensorType& gradient = context.inputs[0];
  const TensorType& addend = context.inputs[2];
  require(addend.dtype == gradient.dtype && addend.shape.rank() == 2 && addend.shape[1] == gradient.shape[-1],
          [&] { return "the addend must be " + std::string(name(gradient.dtype)) + " [V,D] for a gradient [...,D]"; });
  return {addend};
}

std::vector<Value> vjp_embedding(Graph& graph, const Node& node, std::span<const Value> g) {
  return {embedding_backward(graph, g[0], node.inputs[1], graph.type(node.inputs[0]).shape[0]), Value{}};
}

std::vector<Value> vjp_embedding_backward(Graph& graph, const Node& node, std::span<const Value> g) {
  return {embedding(graph, g[0], node.inputs[1]), Value{}};
}

std::vector<Value> vjp_embedding_backward_add(Graph& graph, const Node& node, std::span<const Value> g) {
  return {embedding(graph, g[0], node.inputs[1]), Value{}, g[0]};
}

// A gather reads each row that it writes, and no other rows.
std::int64_t bytes_embedding(const Graph& graph, const Node& node) {
  const auto bytes = [&](Value value) { return static_cast<std::int64_t>(graph.type(value).bytes()); };
  return checked_sum({bytes(node.inputs[1]), bytes(node.outputs[0]), bytes(node.outputs[0])},
                     "the number of bytes of an embedding");
}

// Over its addend, it reads and writes the rows that have an index, at most one for each.
std::int64_t bytes_embedding_backward_add(const Graph& graph, const Node& node) {
  const auto bytes = [&](Value value) { return static_cast<std::int64_t>(graph.type(value).bytes()); };
  const std::int64_t rows = std::min(bytes(node.inputs[0]), bytes(node.outputs[0]));
  return checked_sum({bytes(node.inputs[0]), bytes(node.inputs[1]), rows, rows}, "the number of bytes of an embedding");
}

std::int64_t flops_embedding_backward(const Graph& graph, const Node& node) {
  return graph.type(node.inputs[0]).elements();
}

}  // namespace

extern const OpRule rule_embedding{.infer = infer_embedding, .vjp = vjp_embedding, .bytes = bytes_embedding};
extern const OpRule rule_embedding_backward{
    .infer = infer_embedding_backward, .vjp = vjp_embedding_backward, .flops = flops_embedding_backward};
extern const OpRule rule_embedding_backward_add{.infer = infer_embedding_backward_add,
                                                .vjp = vjp_embedding_backward_add,
                                                .flops = flops_embedding_backward,
                                                .bytes = bytes_embedding_backward_add,
                                                .donations = [](const Node&) {
                                                  return std::vector{std::pair{0, 2}};
                                                }};

Value embedding(Graph& graph, Value weight, Value indices, const Source& source) {
  return make_value(graph, Op::embedding, {weight, indices}, {}, source);
}

Value embedding_backward(Graph& graph, Value gradient, Value indices, std::int64_t rows, const Source& source) {
  return make_value(graph, Op::embedding_backward, {gradient, indices}, {{"rows", rows}}, source);
}

Value embedding_backward_add(Graph& graph, Value gradient, Value indices, Value addend, const Source& source) {
  return make_value(graph, Op::embedding_backward_add, {gradient, indices, addend}, {}, source);
}

}  // namespace ridgepoint
