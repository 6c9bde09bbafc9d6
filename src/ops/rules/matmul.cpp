// matmul: a [...,M,K] x b [...,K,N] -> [...,M,N], leading dimensions equal. With the attribute `compute` = tf32,
// fp32 operands are rounded to 10 bits of mantissa. With the attribute `result`, the result has that dtype, which must
// be the accumulator of the operands' dtype: the sums are not rounded. matmul_add: a b + c, where c and the result have
// that accumulator or the operands' dtype: the sum is rounded once.
//
// With `compute` = fp8, a product of two matrices in bf16 or fp16 multiplies codes of 8 bits, with one scale for each
// matrix by its largest magnitude (ops/rules/quantise.cpp); float8_product.h has the dtypes of the codes. In the
// derivative the gradient is in e5m2, which has more range and less precision.
#include "core/checked.h"
#include "core/types/float8.h"
#include "ops/float8_product.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

DType result_dtype(const Attributes& attributes, DType operands) {
  const std::string result = attributes.get_or<std::string>("result", std::string(name(operands)));
  require(result == name(operands) || result == name(accumulator(operands)),
          [&] { return "the result of " + std::string(name(operands)) + " operands cannot be '" + result + "'"; });
  return dtype_from_name(result);
}

Shape product_shape(const Shape& a, const Shape& b) {
  require(a.rank() >= 2 && a.rank() == b.rank(), "both operands need the same rank, 2 or more");
  require(a[-1] == b[-2],
          [&] { return "the inner sizes " + std::to_string(a[-1]) + " and " + std::to_string(b[-2]) + " differ"; });
  std::vector<Dim> dims(a.dims().begin(), a.dims().end());
  dims.back() = b.dim(-1);
  for (int i = 0; i < a.rank() - 2; ++i) {
    require(a[i] == b[i], [&] {
      return "the batch sizes " + std::to_string(a[i]) + " and " + std::to_string(b[i]) + " differ; broadcast first";
    });
    if (a.dim(i).label == 0) dims[static_cast<std::size_t>(i)] = b.dim(i);
  }
  return Shape(dims);
}

void require_product(const Attributes& attributes, DType operands, const Shape& result) {
  const std::optional<Float8Operands> codes = float8_operands(attributes);
  if (!codes) return require_compute(attributes, operands);
  require(is_float8(codes->left) && is_float8(codes->right), "codes of 8 bits are e4m3 or e5m2");
  require(is_low(operands) && result.rank() == 2, "fp8 products are of two matrices in bf16 or fp16");
}

std::vector<TensorType> infer_matmul(const ShapeContext& context) {
  const DType dtype = common_floating_dtype(context);
  const Shape shape = product_shape(context.inputs[0].shape, context.inputs[1].shape);
  require_product(context.attributes, dtype, shape);
  return {{result_dtype(context.attributes, dtype), shape}};
}

std::vector<TensorType> infer_matmul_add(const ShapeContext& context) {
  const DType dtype = common_floating_dtype({context.op, context.inputs.first(2), context.attributes});
  const Shape shape = product_shape(context.inputs[0].shape, context.inputs[1].shape);
  const TensorType& addend = context.inputs[2];
  require_product(context.attributes, dtype, shape);
  require((addend.dtype == dtype || addend.dtype == accumulator(dtype)) && addend.shape == shape, [&] {
    return "the addend must be " + TensorType{accumulator(dtype), shape}.to_string() + " or " +
           TensorType{dtype, shape}.to_string();
  });
  return {{addend.dtype, shape}};
}

// da = g b^T, db = a^T g
std::vector<Value> vjp_matmul(Graph& graph, const Node& node, std::span<const Value> g) {
  const std::optional<Float8Operands> codes = float8_operands(node.attributes);
  const auto product = [&](Value a, Value b, const Float8Operands& of) {
    Attributes attributes;
    if (node.attributes.contains("compute")) attributes.set("compute", node.attributes.get<std::string>("compute"));
    if (codes) set_float8_operands(attributes, of);
    return make_value(graph, Op::matmul, {a, b}, attributes);
  };
  const DType dtype = graph.type(node.inputs[0]).dtype;
  const Value gradient = graph.type(g[0]).dtype == dtype ? g[0] : cast(graph, g[0], dtype);
  const Float8Operands of = codes.value_or(Float8Operands{});
  return {product(gradient, swap_last_two_axes(graph, node.inputs[1]), {DType::e5m2, of.right}),
          product(swap_last_two_axes(graph, node.inputs[0]), gradient, {of.left, DType::e5m2})};
}

std::vector<Value> vjp_matmul_add(Graph& graph, const Node& node, std::span<const Value> g) {
  std::vector<Value> gradients = vjp_matmul(graph, node, g);
  gradients.push_back(g[0]);
  return gradients;
}

std::int64_t flops_matmul(const Graph& graph, const Node& node) {
  return checked_product({2, graph.type(node.outputs[0]).elements(), graph.type(node.inputs[0]).shape[-1]},
                         "the number of operations of a matmul");
}

std::int64_t flops_matmul_add(const Graph& graph, const Node& node) {
  return checked_sum({flops_matmul(graph, node), graph.type(node.outputs[0]).elements()},
                     "the number of operations of a matmul");
}

}  // namespace

extern const OpRule rule_matmul{.infer = infer_matmul, .vjp = vjp_matmul, .flops = flops_matmul};
extern const OpRule rule_matmul_add{.infer = infer_matmul_add,
                                    .vjp = vjp_matmul_add,
                                    .first_accumulator_operand = 2,
                                    .flops = flops_matmul_add,
                                    .donations = [](const Node&) {
                                      return std::vector{std::pair{0, 2}};
                                    }};

Value matmul(Graph& graph, Value a, Value b, const Source& source) {
  return make_value(graph, Op::matmul, {a, b}, {}, source);
}

Value matmul_add(Graph& graph, Value a, Value b, Value c, const Source& source) {
  return make_value(graph, Op::matmul_add, {a, b, c}, {}, source);
}

}  // namespace ridgepoint
