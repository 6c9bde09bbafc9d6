// Routing of tokens to experts, and products of the tokens of each expert with its matrix. The number of rows of an
// expert is data: shapes are those of all rows together, and `offsets` [E + 1] says where the rows of each expert
// begin.
#include "core/checked.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

// top_k

std::vector<TensorType> infer_top_k(const ShapeContext& context) {
  const TensorType& x = context.inputs[0];
  const std::int64_t k = context.attributes.get<std::int64_t>("k");
  require(is_floating(x.dtype) && x.shape.rank() >= 1, "the operand must be floating [...,E]");
  require(k >= 1 && k <= x.shape[-1], [&] { return "k must be 1 to " + std::to_string(x.shape[-1]); });
  const Shape shape = with_size(x.shape, x.shape.rank() - 1, k);
  return {{x.dtype, shape}, {DType::int64, shape}};
}

std::vector<Value> vjp_top_k(Graph& graph, const Node& node, std::span<const Value> g) {
  const std::int64_t size = graph.type(node.inputs[0]).shape[-1];
  return {make_value(graph, Op::top_k_backward, {g[0], node.outputs[1]}, {{"size", size}})};
}

// g [...,k] and indices [...,k] -> [...,size], g at the indices and 0 elsewhere. The indices of a row differ.
std::vector<TensorType> infer_top_k_backward(const ShapeContext& context) {
  const TensorType& gradient = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  require(is_floating(gradient.dtype) && gradient.shape.rank() >= 1, "the gradient must be floating [...,k]");
  require(indices.dtype == DType::int64 && indices.shape == gradient.shape, "the indices must be int64 [...,k]");
  const std::int64_t size = context.attributes.get<std::int64_t>("size");
  require(size >= gradient.shape[-1], "the size must be k at least");
  return {{gradient.dtype, with_size(gradient.shape, gradient.shape.rank() - 1, size)}};
}

// expert_order

std::vector<TensorType> infer_expert_order(const ShapeContext& context) {
  const TensorType& choices = context.inputs[0];
  const std::int64_t experts = context.attributes.get<std::int64_t>("experts");
  require(choices.dtype == DType::int64 && choices.shape.rank() == 2, "the choices must be int64 [T,k]");
  require(experts >= 1, "there must be an expert");
  const TensorType rows{DType::int64, Shape{choices.shape.elements()}};
  return {rows, rows, {DType::int64, Shape{experts + 1}}};
}

// Products by group

void require_offsets(const TensorType& offsets) {
  require(offsets.dtype == DType::int64 && offsets.shape.rank() == 1 && offsets.shape[0] >= 2,
          "the offsets must be int64 [E + 1]");
}

void require_matrix(const TensorType& rows) { require(rows.shape.rank() == 2, "the rows must be [N,K]"); }

DType operand_dtype(const ShapeContext& context) {
  const DType dtype = common_floating_dtype({context.op, context.inputs.first(2), context.attributes});
  require_compute(context.attributes, dtype);
  return dtype;
}

std::vector<TensorType> infer_grouped_matmul(const ShapeContext& context) {
  const DType dtype = operand_dtype(context);
  const Shape& x = context.inputs[0].shape;
  const Shape& weights = context.inputs[1].shape;
  require_matrix(context.inputs[0]);
  require_offsets(context.inputs[2]);
  require(weights.rank() == 3 && weights[0] == context.inputs[2].shape[0] - 1,
          "the weights must have a matrix for each expert");
  const bool transposed = context.attributes.get<bool>("transposed");
  const int inner = transposed ? 2 : 1;
  require(weights[inner] == x[1], [&] {
    return "the inner sizes " + std::to_string(x[1]) + " and " + std::to_string(weights[inner]) + " differ";
  });
  return {{dtype, Shape{x.dim(0), weights.dim(3 - inner)}}};
}

std::vector<TensorType> infer_grouped_matmul_weights(const ShapeContext& context) {
  const DType dtype = operand_dtype(context);
  const Shape& a = context.inputs[0].shape;
  const Shape& b = context.inputs[1].shape;
  require_matrix(context.inputs[0]);
  require_matrix(context.inputs[1]);
  require_offsets(context.inputs[2]);
  require(a[0] == b[0], "both operands must have the same rows");
  return {{dtype, Shape{context.inputs[2].shape[0] - 1, a.dim(1), b.dim(1)}}};
}

// The product with the attribute `compute` of the one that is differentiated.
Value product(Graph& graph, const Node& of, Op op, std::vector<Value> operands, std::optional<bool> transposed) {
  Attributes attributes;
  if (of.attributes.contains("compute")) attributes.set("compute", of.attributes.get<std::string>("compute"));
  if (transposed) attributes.set("transposed", *transposed);
  operands.push_back(of.inputs[2]);
  return make_value(graph, op, std::move(operands), std::move(attributes));
}

// y = x w: dx = g w^T, dw = x^T g by group
std::vector<Value> vjp_grouped_matmul(Graph& graph, const Node& node, std::span<const Value> g) {
  const bool transposed = node.attributes.get<bool>("transposed");
  const Value x = node.inputs[0];
  const std::vector<Value> outer = transposed ? std::vector{g[0], x} : std::vector{x, g[0]};
  return {product(graph, node, Op::grouped_matmul, {g[0], node.inputs[1]}, !transposed),
          product(graph, node, Op::grouped_matmul_weights, outer, std::nullopt), Value{}};
}

// w = a^T b: da = b g^T, db = a g by group
std::vector<Value> vjp_grouped_matmul_weights(Graph& graph, const Node& node, std::span<const Value> g) {
  return {product(graph, node, Op::grouped_matmul, {node.inputs[1], g[0]}, true),
          product(graph, node, Op::grouped_matmul, {node.inputs[0], g[0]}, false), Value{}};
}

// As if every row belonged to a group.
std::int64_t flops_grouped_matmul(const Graph& graph, const Node& node) {
  return checked_product({2, graph.type(node.outputs[0]).elements(), graph.type(node.inputs[0]).shape[1]},
                         "the number of operations of a grouped matmul");
}

std::int64_t flops_grouped_matmul_weights(const Graph& graph, const Node& node) {
  return checked_product({2, graph.type(node.inputs[0]).elements(), graph.type(node.inputs[1]).shape[1]},
                         "the number of operations of a grouped matmul");
}

}  // namespace

extern const OpRule rule_top_k{.infer = infer_top_k, .vjp = vjp_top_k};
extern const OpRule rule_top_k_backward{.infer = infer_top_k_backward};
extern const OpRule rule_expert_order{.infer = infer_expert_order};
extern const OpRule rule_grouped_matmul{
    .infer = infer_grouped_matmul, .vjp = vjp_grouped_matmul, .flops = flops_grouped_matmul};
extern const OpRule rule_grouped_matmul_weights{
    .infer = infer_grouped_matmul_weights, .vjp = vjp_grouped_matmul_weights, .flops = flops_grouped_matmul_weights};

std::pair<Value, Value> top_k(Graph& graph, Value x, std::int64_t k, const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::top_k, {x}, {{"k", k}}, source));
  return {made.outputs[0], made.outputs[1]};
}

ExpertOrder expert_order(Graph& graph, Value choices, std::int64_t experts, const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::expert_order, {choices}, {{"experts", experts}}, source));
  return {made.outputs[0], made.outputs[1], made.outputs[2]};
}

Value grouped_matmul(Graph& graph, Value x, Value weights, Value offsets, bool transposed, const Source& source) {
  return make_value(graph, Op::grouped_matmul, {x, weights, offsets}, {{"transposed", transposed}}, source);
}

Value grouped_matmul_weights(Graph& graph, Value a, Value b, Value offsets, const Source& source) {
  return make_value(graph, Op::grouped_matmul_weights, {a, b, offsets}, {}, source);
}

}  // namespace ridgepoint
