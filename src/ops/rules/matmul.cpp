// matmul: a [...,M,K] x b [...,K,N] -> [...,M,N], leading dimensions equal. The attribute `compute`, where there is
// one, is tf32: of fp32 operands the products take 10 bits of mantissa.
#include <numeric>

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

Value swap_last_two(Graph& graph, Value x) {
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(graph.type(x).shape.rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(graph, x, permutation);
}

// da = g b^T, db = a^T g
std::vector<Value> vjp_matmul(Graph& graph, const Node& node, std::span<const Value> g) {
  const auto product = [&](Value a, Value b) {
    return graph.node(make_node(graph, Op::matmul, {a, b}, node.attributes)).outputs[0];
  };
  return {product(g[0], swap_last_two(graph, node.inputs[1])), product(swap_last_two(graph, node.inputs[0]), g[0])};
}

std::int64_t flops_matmul(const Graph& graph, const Node& node) {
  return checked_product({2, graph.type(node.outputs[0]).elements(), graph.type(node.inputs[0]).shape[-1]},
                         "the number of operations of a matmul");
}

}  // namespace

extern const OpRule rule_matmul{.infer = infer_matmul, .vjp = vjp_matmul, .flops = flops_matmul};

Value matmul(Graph& graph, Value a, Value b, const Source& source) {
  return graph.node(make_node(graph, Op::matmul, {a, b}, {}, source)).outputs[0];
}

}  // namespace ridgepoint
