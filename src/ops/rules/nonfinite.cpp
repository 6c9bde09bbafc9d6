// nonfinite: 0 where every element is finite, NaN where one is infinite or NaN; a scalar. x * 0 is 0 or NaN.
#include <numeric>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_nonfinite(const ShapeContext& context) {
  return {{common_floating_dtype(context), Shape()}};
}

std::vector<Value> decompose_nonfinite(Graph& graph, const Node& node) {
  const Value x = node.inputs[0];
  std::vector<std::int64_t> axes(static_cast<std::size_t>(graph.type(x).shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return {reduce_sum(graph, scale(graph, x, 0.0), axes)};
}

std::vector<Value> vjp_nonfinite(Graph&, const Node&, std::span<const Value>) { return {Value{}}; }

}  // namespace

extern const OpRule rule_nonfinite{.infer = infer_nonfinite, .vjp = vjp_nonfinite, .decompose = decompose_nonfinite};

Value nonfinite(Graph& graph, Value x, const Source& source) {
  return graph.node(make_node(graph, Op::nonfinite, {x}, {}, source)).outputs[0];
}

}  // namespace ridgepoint
