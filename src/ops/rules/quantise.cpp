// quantise: a matrix x [M,N] as codes of a float8 dtype (core/types/float8.h) and one scale, by its present values
// ("current scaling", with one scale a tensor): the largest magnitude gets the largest code. Attributes:
//   dtype   of the codes: e4m3 or e5m2
//   layout  rows: codes [M,N]. columns: the same codes as [N,M]. both: first rows, then columns
// An optional second operand, fp32 of any shape, has the largest magnitudes of parts of x that are all of x together.
// Results: the codes, and the scale, an fp32 scalar. A matrix of zeros has codes of 0. An infinity or a NaN anywhere in
// x makes the scale infinite or NaN, so that every product with x is NaN.
//
// quantise_rows: a matrix x [M,N] as codes [M,N] of the dtype `dtype` and one scale a row, fp32 [M,1]: the least power
// of two by which the row has no number beyond the largest code. A row of zeros has codes of 0; one with an infinity or
// a NaN has the scale NaN.
//
// transpose_codes: codes [M,N] and the powers of two [M,1] that are the scales of their rows -> codes [N,M] with one
// scale, an fp32 scalar, the largest of those: the exponent of a code changes by the difference of the scales, and its
// other bits stay unless the code becomes subnormal. A scalar is the scale of all rows already: codes stay as they are.
//
// widen_codes: codes [M,N] and their scale, an fp32 scalar -> the numbers [M,N], in the dtype `dtype`: bf16, fp16 or
// fp32, rounded from fp32.
//
// scaled_matmul: codes a [M,K], scale of a, codes b [N,K], scale of b -> a b^T times both scales, [M,N]: both operands
// have the inner dimension last, as the tensor cores for 8 bits read them. A scale is a scalar or one number a row,
// [M,1] and [N,1]. The attribute `result` is its dtype. An optional fifth operand, [M,N] of that dtype, is added before
// the result is rounded. bf16 represents every code, so the decomposition is a product in bf16 with fp32 sums.
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

std::vector<TensorType> infer_quantise_rows(const ShapeContext& context) {
  const TensorType& x = context.inputs[0];
  require(is_floating(x.dtype) && accumulator(x.dtype) == DType::fp32, "the operand must be fp32, bf16 or fp16");
  require(x.shape.rank() >= 2 && x.shape[-1] > 0, "the operand must have rows with elements");
  std::vector<Dim> rows(x.shape.dims().begin(), x.shape.dims().end());
  rows.back() = Dim(1);
  return {{code_dtype(context.attributes), x.shape}, {DType::fp32, Shape(rows)}};
}

// The least power of two that is not below x, for normal x. 2^-24 x is more than half of the unit in the last place of
// x, unless x is a power of two: then the sum rounds to x. NaN and infinity become NaN.
Value power_of_two_from(Graph& graph, Value x) {
  const Value part = mul(graph, x, constant(graph, 0x1p-24, DType::fp32));
  const Value unit = sub(graph, add(graph, x, part), x);
  return maximum(graph, x, mul(graph, unit, constant(graph, 0x1p24, DType::fp32)));
}

std::vector<Value> decompose_quantise_rows(Graph& graph, const Node& node) {
  return codes_of_rows(graph, node.inputs, code_dtype(node.attributes));
}

std::vector<TensorType> infer_transpose_codes(const ShapeContext& context) {
  const TensorType& codes = context.inputs[0];
  require(is_float8(codes.dtype) && codes.shape.rank() == 2, "operand 0 must be a matrix of e4m3 or e5m2");
  require(codes.shape.elements() > 0, "operand 0 must have elements");
  const TensorType& scales = context.inputs[1];
  require(scales.dtype == DType::fp32 && (scales.shape == Shape{codes.shape[0], 1} || scales.shape.rank() == 0),
          "the scales must be fp32, one a row or one of all");
  return {{codes.dtype, Shape{codes.shape.dim(1), codes.shape.dim(0)}}, {DType::fp32, Shape()}};
}

std::vector<Value> decompose_transpose_codes(Graph& graph, const Node& node) {
  const auto [codes, scales] = std::pair(node.inputs[0], node.inputs[1]);
  if (graph.type(scales).shape.rank() == 0) return {swap_last_two_axes(graph, codes), scales};
  const Value scale = reduce_max(graph, scales, {0, 1});
  const Value wide = cast(graph, codes, DType::fp32);
  const Value shifted = cast(graph, mul(graph, wide, div(graph, scales, scale)), graph.type(codes).dtype);
  return {swap_last_two_axes(graph, shifted), scale};
}

DType result_dtype(const Attributes& attributes, const char* key) {
  const DType dtype = dtype_from_name(attributes.get<std::string>(key));
  require(is_floating(dtype) && accumulator(dtype) == DType::fp32,
          [&] { return "the result must be fp32, bf16 or fp16, not " + std::string(name(dtype)); });
  return dtype;
}
DType product_dtype(const Attributes& attributes) { return result_dtype(attributes, "result"); }

std::vector<TensorType> infer_widen_codes(const ShapeContext& context) {
  const TensorType& codes = context.inputs[0];
  require(is_float8(codes.dtype) && codes.shape.rank() == 2, "operand 0 must be a matrix of e4m3 or e5m2");
  require(context.inputs[1] == TensorType{DType::fp32, Shape()}, "the scale must be an fp32 scalar");
  return {{result_dtype(context.attributes, "dtype"), codes.shape}};
}

std::vector<Value> decompose_widen_codes(Graph& graph, const Node& node) {
  const Value wide = cast(graph, node.inputs[0], DType::fp32);
  return {cast_to(graph, mul(graph, wide, node.inputs[1]), result_dtype(node.attributes, "dtype"))};
}

std::vector<TensorType> infer_scaled_matmul(const ShapeContext& context) {
  const TensorType& a = context.inputs[0];
  const TensorType& b = context.inputs[2];
  for (const TensorType* codes : {&a, &b})
    require(is_float8(codes->dtype) && codes->shape.rank() == 2, "operands 0 and 2 must be matrices of e4m3 or e5m2");
  const auto is_scale = [](const TensorType& scale, const TensorType& codes) {
    return scale == TensorType{DType::fp32, Shape()} || scale == TensorType{DType::fp32, Shape{codes.shape[0], 1}};
  };
  require(is_scale(context.inputs[1], a) && is_scale(context.inputs[3], b),
          "scales must be fp32, one of the matrix or one a row");
  require(a.shape[1] == b.shape[1], [&] {
    return "the inner sizes " + std::to_string(a.shape[1]) + " and " + std::to_string(b.shape[1]) + " differ";
  });
  const TensorType result{product_dtype(context.attributes), Shape{a.shape.dim(0), b.shape.dim(0)}};
  require(context.inputs.size() == 4 || context.inputs[4] == result,
          [&] { return "the addend must be " + result.to_string(); });
  return {result};
}

// Casts below a transpose, so that the cast reads codes in their order.
Value as_bf16(Graph& graph, Value codes) {
  const Node& producer = graph.producer_node(codes);
  if (producer.op != Op::transpose) return cast(graph, codes, DType::bf16);
  const Permutation permutation = permutation_of(producer);
  return transpose(graph, cast(graph, producer.inputs[0], DType::bf16), permutation);
}

Value times_scales(Graph& graph, Value sums, Value a_scale, Value b_scale) {
  if (graph.type(a_scale).shape.rank() + graph.type(b_scale).shape.rank() == 0)
    return mul(graph, sums, mul(graph, a_scale, b_scale));
  const Value columns = graph.type(b_scale).shape.rank() == 0 ? b_scale : swap_last_two_axes(graph, b_scale);
  return mul(graph, mul(graph, sums, columns), a_scale);
}

std::vector<Value> decompose_scaled_matmul(Graph& graph, const Node& node) {
  const Value a = as_bf16(graph, node.inputs[0]);
  const Value b = swap_last_two_axes(graph, as_bf16(graph, node.inputs[2]));
  const Value sums = make_value(graph, Op::matmul, {a, b}, {{"result", std::string(name(DType::fp32))}});
  const DType dtype = product_dtype(node.attributes);
  Value product = times_scales(graph, sums, node.inputs[1], node.inputs[3]);
  if (const auto addend = addend_operand(node))
    product = add(graph, product, cast_to(graph, node.inputs[*addend], DType::fp32));
  return {cast_to(graph, product, dtype)};
}

std::int64_t flops_scaled_matmul(const Graph& graph, const Node& node) {
  const std::int64_t elements = graph.type(node.outputs[0]).elements();
  const std::int64_t product =
      checked_product({2, elements, graph.type(node.inputs[0]).shape[1]}, "the number of operations of a matmul");
  return checked_sum({product, addend_operand(node) ? elements : 0}, "the number of operations of a matmul");
}

std::vector<std::pair<int, int>> donations_of_scaled_matmul(const Node& node) {
  const std::optional<std::size_t> addend = addend_operand(node);
  if (!addend) return {};
  return {{0, static_cast<int>(*addend)}};
}

// The passes that make these ops run after differentiation.
std::vector<Value> vjp_of_codes(Graph&, const Node& node, std::span<const Value>) {
  throw Error("codes of 8 bits have no derivative: '" + std::string(name(node.op)) +
                  "' is made after differentiation (src/passes/precision/quantise_products.cpp)",
              ErrorKind::unsupported);
}

}  // namespace

std::vector<Value> codes_of_rows(Graph& graph, std::span<const Value> parts, DType codes) {
  std::vector<Value> wide;
  Value magnitudes;
  for (const Value part : parts) {
    wide.push_back(cast_to(graph, part, DType::fp32));
    const Value magnitude = maximum(graph, wide.back(), neg(graph, wide.back()));
    magnitudes = magnitudes.valid() ? maximum(graph, magnitudes, magnitude) : magnitude;
  }
  const Value largest = reduce_max(graph, magnitudes, {-1}, true);
  const Value largest_code = constant(graph, static_cast<double>(float8_format(codes).largest), DType::fp32);
  const Value least = constant(graph, kLeastFloat8Magnitude, DType::fp32);
  const Value scale = power_of_two_from(graph, maximum(graph, div(graph, largest, largest_code), least));
  const Value factor = div(graph, constant(graph, 1.0, DType::fp32), scale);
  std::vector<Value> results;
  for (const Value part : wide) results.push_back(cast(graph, mul(graph, part, factor), codes));
  results.push_back(scale);
  return results;
}

extern const OpRule rule_quantise{.infer = infer_quantise, .vjp = vjp_of_codes, .decompose = decompose_quantise};
extern const OpRule rule_quantise_rows{
    .infer = infer_quantise_rows, .vjp = vjp_of_codes, .decompose = decompose_quantise_rows};
extern const OpRule rule_transpose_codes{
    .infer = infer_transpose_codes, .vjp = vjp_of_codes, .decompose = decompose_transpose_codes};
extern const OpRule rule_widen_codes{
    .infer = infer_widen_codes, .vjp = vjp_of_codes, .decompose = decompose_widen_codes};
extern const OpRule rule_scaled_matmul{.infer = infer_scaled_matmul,
                                       .vjp = vjp_of_codes,
                                       .flops = flops_scaled_matmul,
                                       .decompose = decompose_scaled_matmul,
                                       .donations = donations_of_scaled_matmul};

Quantised quantise(Graph& graph, Value x, DType codes, const QuantiseLayout& layout, const Source& source) {
  const std::string text = layout.rows && layout.columns ? "both" : layout.rows ? "rows" : "columns";
  const std::vector<Value> made =
      graph.node(make_node(graph, Op::quantise, {x}, {{"dtype", std::string(name(codes))}, {"layout", text}}, source))
          .outputs;
  return {.rows = layout.rows ? made[0] : Value{},
          .columns = layout.columns ? made[layout.rows ? 1 : 0] : Value{},
          .scale = made.back()};
}

QuantisedRows quantise_rows(Graph& graph, Value x, DType codes, const Source& source) {
  const std::vector<Value> made =
      graph.node(make_node(graph, Op::quantise_rows, {x}, {{"dtype", std::string(name(codes))}}, source)).outputs;
  return {.codes = made[0], .scales = made[1]};
}

Quantised transpose_codes(Graph& graph, Value codes, Value scales, const Source& source) {
  const std::vector<Value> made =
      graph.node(make_node(graph, Op::transpose_codes, {codes, scales}, {}, source)).outputs;
  return {.rows = {}, .columns = made[0], .scale = made[1]};
}

Value widen_codes(Graph& graph, Value codes, Value scale, DType dtype, const Source& source) {
  return make_value(graph, Op::widen_codes, {codes, scale}, {{"dtype", std::string(name(dtype))}}, source);
}

Value scaled_matmul(Graph& graph, Value a, Value a_scale, Value b, Value b_scale, DType result, Value addend,
                    const Source& source) {
  std::vector<Value> operands = {a, a_scale, b, b_scale};
  if (addend.valid()) operands.push_back(addend);
  return make_value(graph, Op::scaled_matmul, std::move(operands), {{"result", std::string(name(result))}}, source);
}

}  // namespace ridgepoint
