// rope: rotary position embedding (Su et al. 2021) on interleaved pairs:
// (a, b) at position p, frequency i  ->  (a cos - b sin, a sin + b cos) with cos, sin at [p, i]. For a bf16 or fp16
// operand the tables are fp32; the arithmetic is fp32 and the result is rounded once.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_rope(const ShapeContext& context) {
  for (const TensorType& type : context.inputs)
    require(is_floating(type.dtype), "operands must be floating; cast first");
  const DType dtype = context.inputs[0].dtype;
  const Shape& x = context.inputs[0].shape;
  require(x.rank() >= 2 && x[-1] % 2 == 0, "the operand must be [...,D] with D even");
  const int axis = normalise_axis(context.attributes.get<std::int64_t>("axis"), x.rank());
  require(axis != x.rank() - 1, "positions cannot run along the last axis");
  context.attributes.get<bool>("inverse");
  for (int table = 1; table <= 2; ++table) {
    const Shape& shape = context.inputs[static_cast<std::size_t>(table)].shape;
    require(context.inputs[static_cast<std::size_t>(table)].dtype == accumulator(dtype), [&] {
      return "the tables of a " + std::string(name(dtype)) + " operand must be " +
             std::string(name(accumulator(dtype)));
    });
    require(shape.rank() == 2 && shape[0] == x[axis] && shape[1] == x[-1] / 2, "the tables must be [S,D/2]");
  }
  return {context.inputs[0]};
}

// In the shape [..., D/2, 2] a flip of the last axis swaps the elements of each pair. The sign of the sine is 2i - 1
// for element i of a pair: minus for the first, plus for the second; the opposite when inverse.
std::vector<Value> decompose_rope(Graph& graph, const Node& node) {
  const TensorType type = graph.type(node.inputs[0]);
  const int rank = type.shape.rank();
  require(rank < kMaxRank, "the decomposition needs one more dimension than the operand has");
  const int axis = normalise_axis(node.attributes.get<std::int64_t>("axis"), rank);
  const Dim pairs(type.shape[-1] / 2);
  std::vector<Dim> pair_dims;
  std::vector<Dim> table_dims;
  for (int i = 0; i < rank - 1; ++i) {
    pair_dims.push_back(type.shape.dim(i));
    table_dims.push_back(i == axis ? type.shape.dim(i) : Dim(1));
  }
  pair_dims.insert(pair_dims.end(), {pairs, Dim(2)});
  table_dims.insert(table_dims.end(), {pairs, Dim(1)});

  const DType dtype = accumulator(type.dtype);
  const Value x = reshape(graph, cast_to(graph, node.inputs[0], dtype), Shape(pair_dims));
  const Value cosines = reshape(graph, node.inputs[1], Shape(table_dims));
  const Value sines = reshape(graph, node.inputs[2], Shape(table_dims));
  const double direction = node.attributes.get<bool>("inverse") ? -1.0 : 1.0;
  const Value sign = shift(graph, scale(graph, iota(graph, Shape{2}, 0, dtype), 2.0 * direction), -direction);
  const Value signed_sines = mul(graph, sines, sign);
  const Value across = mul(graph, flip(graph, x, rank), signed_sines);
  const Value rotated = add(graph, mul(graph, x, cosines), across);
  return {reshape(graph, cast_to(graph, rotated, type.dtype), type.shape)};
}

// The transpose of a rotation is its inverse. The tables are treated as constants (first_constant_operand).
std::vector<Value> vjp_rope(Graph& graph, const Node& node, std::span<const Value> g) {
  const bool inverse = node.attributes.get<bool>("inverse");
  const int axis = static_cast<int>(node.attributes.get<std::int64_t>("axis"));
  return {rope(graph, g[0], node.inputs[1], node.inputs[2], axis, !inverse), Value{}, Value{}};
}

}  // namespace

extern const OpRule rule_rope{
    .infer = infer_rope, .vjp = vjp_rope, .first_constant_operand = 1, .decompose = decompose_rope};

Value rope(Graph& graph, Value x, Value cosines, Value sines, int axis, bool inverse, const Source& source) {
  return make_value(graph, Op::rope, {x, cosines, sines}, {{"axis", std::int64_t{axis}}, {"inverse", inverse}}, source);
}

}  // namespace ridgepoint
