// quantise: a matrix x [M,N] as codes of a float8 dtype (core/types/float8.h) and one scale, by its present values
// ("current scaling", with one scale a tensor): the largest magnitude gets the largest code. Attributes:
//   dtype   of the codes: e4m3 or e5m2
//   layout  rows: codes [M,N]. columns: the same codes as [N,M]. both: first rows, then columns
// An optional second operand, fp32 of any shape, has the largest magnitudes of parts of x that are all of x together.
// Results: the codes, and the scale, an fp32 scalar. A matrix of zeros has codes of 0. An infinity or a NaN anywhere in
// x makes the scale infinite or NaN, so that every product with x is NaN.
//
// scaled_matmul: codes a [M,K], scale of a, codes b [N,K], scale of b -> a b^T times both scales, [M,N]: both operands
// have the inner dimension last, as the tensor cores for 8 bits read them. The attribute `result` is its dtype. bf16
// represents every code, so the decomposition is a product in bf16 with fp32 sums.
#include <numeric>

#include "core/checked.h"
#include "core/types/float8.h"
#include "ir/permutation.h"
#include "ops/float8_product.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

DType code_dtype(const Attributes& attributes) {
  const DType dtype = dtype_from_name(attributes.get<std::string>("dtype"));
  require(is_float8(dtype), [&] { return "codes are e4m3 or e5m2, not " + std::string(name(dtype)); });
  return dtype;
}

std::vector<TensorType> infer_quantise(const ShapeContext& context) {
  const TensorType& x = context.inputs[0];
  require(is_floating(x.dtype) && accumulator(x.dtype) == DType::fp32, "the operand must be fp32, bf16 or fp16");
  require(x.shape.rank() == 2 && x.shape.elements() > 0, "the operand must be a matrix with elements");
  require(
      context.inputs.size() == 1 || (context.inputs[1].dtype == DType::fp32 && context.inputs[1].shape.elements() > 0),
      "the magnitudes must be fp32");
  const DType dtype = code_dtype(context.attributes);
  const QuantiseLayout layout = quantise_layout(context.attributes);
  std::vector<TensorType> results;
  if (layout.rows) results.push_back({dtype, x.shape});
  if (layout.columns) results.push_back({dtype, Shape{x.shape.dim(1), x.shape.dim(0)}});
  results.push_back({DType::fp32, Shape()});
  return results;
}

Value largest_magnitude(Graph& graph, const Node& node, Value x) {
  const Value magnitudes = node.inputs.size() > 1 ? node.inputs[1] : maximum(graph, x, neg(graph, x));
  std::vector<std::int64_t> axes(static_cast<std::size_t>(graph.type(magnitudes).shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return reduce_max(graph, magnitudes, axes);
}

std::vector<Value> decompose_quantise(Graph& graph, const Node& node) {
  const DType dtype = code_dtype(node.attributes);
  const Value x = cast_to(graph, node.inputs[0], DType::fp32);
  const Value largest = largest_magnitude(graph, node, x);
  const Value magnitude = maximum(graph, largest, constant(graph, kLeastFloat8Magnitude, DType::fp32));
  const Value largest_code = constant(graph, static_cast<double>(float8_format(dtype).largest), DType::fp32);
  const Value codes = cast(graph, mul(graph, x, div(graph, largest_code, magnitude)), dtype);
  const QuantiseLayout layout = quantise_layout(node.attributes);
  std::vector<Value> results;
  if (layout.rows) results.push_back(codes);
  if (layout.columns) results.push_back(swap_last_two_axes(graph, codes));
  results.push_back(div(graph, magnitude, largest_code));
  return results;
}

DType product_dtype(const Attributes& attributes) {
  const DType dtype = dtype_from_name(attributes.get<std::string>("result"));
  require(is_floating(dtype) && accumulator(dtype) == DType::fp32,
          [&] { return "the result must be fp32, bf16 or fp16, not " + std::string(name(dtype)); });
  return dtype;
}

std::vector<TensorType> infer_scaled_matmul(const ShapeContext& context) {
  const TensorType& a = context.inputs[0];
  const TensorType& b = context.inputs[2];
  for (const TensorType* codes : {&a, &b})
    require(is_float8(codes->dtype) && codes->shape.rank() == 2, "operands 0 and 2 must be matrices of e4m3 or e5m2");
  const TensorType scale{DType::fp32, Shape()};
  require(context.inputs[1] == scale && context.inputs[3] == scale, "scales must be fp32 scalars");
  require(a.shape[1] == b.shape[1], [&] {
    return "the inner sizes " + std::to_string(a.shape[1]) + " and " + std::to_string(b.shape[1]) + " differ";
  });
  return {{product_dtype(context.attributes), Shape{a.shape.dim(0), b.shape.dim(0)}}};
}

// Casts below a transpose, so that the cast reads codes in their order.
Value as_bf16(Graph& graph, Value codes) {
  const Node& producer = graph.producer_node(codes);
  if (producer.op != Op::transpose) return cast(graph, codes, DType::bf16);
  const Permutation permutation = permutation_of(producer);
  return transpose(graph, cast(graph, producer.inputs[0], DType::bf16), permutation);
}

std::vector<Value> decompose_scaled_matmul(Graph& graph, const Node& node) {
  const Value a = as_bf16(graph, node.inputs[0]);
  const Value b = swap_last_two_axes(graph, as_bf16(graph, node.inputs[2]));
  const Value sums = make_value(graph, Op::matmul, {a, b}, {{"result", std::string(name(DType::fp32))}});
  const Value product = mul(graph, sums, mul(graph, node.inputs[1], node.inputs[3]));
  return {cast_to(graph, product, product_dtype(node.attributes))};
}

std::int64_t flops_scaled_matmul(const Graph& graph, const Node& node) {
  return checked_product({2, graph.type(node.outputs[0]).elements(), graph.type(node.inputs[0]).shape[1]},
                         "the number of operations of a matmul");
}

// The passes that make these ops run after differentiation.
std::vector<Value> vjp_of_codes(Graph&, const Node& node, std::span<const Value>) {
  throw Error("codes of 8 bits have no derivative: '" + std::string(name(node.op)) +
                  "' is made after differentiation (src/passes/precision/quantise_products.cpp)",
              ErrorKind::unsupported);
}

}  // namespace

extern const OpRule rule_quantise{.infer = infer_quantise, .vjp = vjp_of_codes, .decompose = decompose_quantise};
extern const OpRule rule_scaled_matmul{.infer = infer_scaled_matmul,
                                       .vjp = vjp_of_codes,
                                       .flops = flops_scaled_matmul,
                                       .decompose = decompose_scaled_matmul};

Quantised quantise(Graph& graph, Value x, DType codes, const QuantiseLayout& layout, const Source& source) {
  const std::string text = layout.rows && layout.columns ? "both" : layout.rows ? "rows" : "columns";
  const std::vector<Value> made =
      graph.node(make_node(graph, Op::quantise, {x}, {{"dtype", std::string(name(codes))}, {"layout", text}}, source))
          .outputs;
  return {.rows = layout.rows ? made[0] : Value{},
          .columns = layout.columns ? made[layout.rows ? 1 : 0] : Value{},
          .scale = made.back()};
}

Value scaled_matmul(Graph& graph, Value a, Value a_scale, Value b, Value b_scale, DType result, const Source& source) {
  return make_value(graph, Op::scaled_matmul, {a, a_scale, b, b_scale}, {{"result", std::string(name(result))}},
                    source);
}

}  // namespace ridgepoint
