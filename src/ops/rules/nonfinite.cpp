// nonfinite: a scalar, 0 where every element is finite, otherwise NaN. It sums x * 0, which is NaN for infinite x and
// NaN. For bf16 and fp16 the scalar is fp32.
#include "ir/permutation.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_nonfinite(const ShapeContext& context) {
  return {{accumulator(common_floating_dtype(context)), Shape()}};
}

std::vector<Value> decompose_nonfinite(Graph& graph, const Node& node) {
  const Value x = cast_to(graph, node.inputs[0], accumulator(graph.type(node.inputs[0]).dtype));
  return {reduce_sum(graph, scale(graph, x, 0.0), identity_permutation(graph.type(x).shape.rank()))};
}

std::vector<Value> vjp_nonfinite(Graph&, const Node&, std::span<const Value>) { return {Value{}}; }

}  // namespace

extern const OpRule rule_nonfinite{.infer = infer_nonfinite, .vjp = vjp_nonfinite, .decompose = decompose_nonfinite};

Value nonfinite(Graph& graph, Value x, const Source& source) {
  return make_value(graph, Op::nonfinite, {x}, {}, source);
}

}  // namespace ridgepoint
