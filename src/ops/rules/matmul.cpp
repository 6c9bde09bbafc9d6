// matmul: a [...,M,K] x b [...,K,N] -> [...,M,N], leading dimensions equal. With the attribute `compute` = tf32,
// fp32 operands are rounded to 10 bits of mantissa.
#include "core/checked.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_matmul(const ShapeContext& context) {
  const DType dtype = common_floating_dtype(context);
  const Shape& a = context.inputs[0].shape;
  const Shape& b = context.inputs[1].shape;
  require(a.rank() >= 2 && a.rank() == b.rank(), "both operands need the same rank, 2 or more");
  require(a[-1] == b[-2], "the inner sizes " + std::to_string(a[-1]) + " and " + std::to_string(b[-2]) + " differ");
  std::vector<Dim> dims;
  for (int i = 0; i < a.rank() - 2; ++i) {
    require(a[i] == b[i],
            "the batch sizes " + std::to_string(a[i]) + " and " + std::to_string(b[i]) + " differ; broadcast first");
    dims.push_back(a.dim(i).label != 0 ? a.dim(i) : b.dim(i));
  }
  dims.push_back(a.dim(-2));
  dims.push_back(b.dim(-1));
  require_compute(context.attributes, dtype);
  return {{dtype, Shape(dims)}};
}

// da = g b^T, db = a^T g
std::vector<Value> vjp_matmul(Graph& graph, const Node& node, std::span<const Value> g) {
  const auto product = [&](Value a, Value b) { return make_value(graph, Op::matmul, {a, b}, node.attributes); };
  return {product(g[0], swap_last_two_axes(graph, node.inputs[1])),
          product(swap_last_two_axes(graph, node.inputs[0]), g[0])};
}

std::int64_t flops_matmul(const Graph& graph, const Node& node) {
  return checked_product({2, graph.type(node.outputs[0]).elements(), graph.type(node.inputs[0]).shape[-1]},
                         "the number of operations of a matmul");
}

}  // namespace

extern const OpRule rule_matmul{.infer = infer_matmul, .vjp = vjp_matmul, .flops = flops_matmul};

Value matmul(Graph& graph, Value a, Value b, const Source& source) {
  return make_value(graph, Op::matmul, {a, b}, {}, source);
}

}  // namespace ridgepoint
