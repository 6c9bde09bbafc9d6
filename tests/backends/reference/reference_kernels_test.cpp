// Every primitive op of the reference back end against values computed by hand.

#include <cmath>

#include "backends/reference/reference_device.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "run_node.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::NanSensitiveDoubleEq;
using testing::Pointwise;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class ReferenceKernels : public testing::Test {
 protected:
  Value in(Shape shape, DType dtype = DType::fp64) {
    return input(graph_, "input" + std::to_string(inputs_++), {dtype, std::move(shape)}, Role::data);
  }
  std::vector<double> run(Value result, const std::vector<std::vector<double>>& values = {}) {
    std::vector<TestOperand> operands;
    for (const std::vector<double>& storage : values) operands.push_back({storage, 0, std::nullopt});
    return run_node(*device_, graph_, result, operands);
  }
  using Unary = Value (*)(Graph&, Value, const Source&);
  using Binary = Value (*)(Graph&, Value, Value, const Source&);
  std::vector<double> run_unary(Unary op, const std::vector<double>& x) {
    return run(op(graph_, in({static_cast<std::int64_t>(x.size())}), Source::current()), {x});
  }
  std::vector<double> run_binary(Binary op, const std::vector<double>& a, const std::vector<double>& b) {
    const Shape shape{static_cast<std::int64_t>(a.size())};
    return run(op(graph_, in(shape), in(shape), Source::current()), {a, b});
  }

  std::shared_ptr<Device> device_ = make_reference_device();
  Graph graph_;
  int inputs_ = 0;
};

auto are(const std::vector<double>& values) { return Pointwise(NanSensitiveDoubleEq(), values); }

TEST_F(ReferenceKernels, computes_unary_ops) {
  EXPECT_THAT(run_unary(copy, {1.5, -2}), are({1.5, -2}));
  EXPECT_THAT(run_unary(detach, {1.5, -2}), are({1.5, -2}));
  EXPECT_THAT(run_unary(neg, {1.5, -2, kInfinity}), are({-1.5, 2, -kInfinity}));
  EXPECT_THAT(run_unary(exp, {0, 1, -kInfinity}), are({1, std::exp(1.0), 0}));
  EXPECT_THAT(run_unary(expm1, {0, 1e-20}), are({0, 1e-20}));
  EXPECT_THAT(run_unary(log, {1, std::exp(2.0), 0}), are({0, 2, -kInfinity}));
  EXPECT_THAT(run_unary(sqrt, {0, 9, -1}), are({0, 3, kNaN}));
  EXPECT_THAT(run_unary(rsqrt, {0.25, 16}), are({2, 0.25}));
  EXPECT_THAT(run_unary(tanh, {0, kInfinity, -kInfinity}), are({0, 1, -1}));
}

TEST_F(ReferenceKernels, computes_a_sigmoid_that_does_not_overflow) {
  EXPECT_THAT(run_unary(sigmoid, {0, std::log(3.0), -std::log(3.0), 1000, -1000, -kInfinity}),
              are({0.5, 0.75, 0.25, 1, 0, 0}));
  EXPECT_THAT(run_unary(sigmoid, {-700}), are({std::exp(-700.0)}));  // not flushed to zero
}

TEST_F(ReferenceKernels, computes_binary_ops) {
  EXPECT_THAT(run_binary(add, {1, 2}, {10, -2}), are({11, 0}));
  EXPECT_THAT(run_binary(sub, {1, 2}, {10, -2}), are({-9, 4}));
  EXPECT_THAT(run_binary(mul, {3, 2}, {10, -2}), are({30, -4}));
  EXPECT_THAT(run_binary(div, {1, 2, 1}, {8, -2, 0}), are({0.125, -1, kInfinity}));
}

TEST_F(ReferenceKernels, lets_nan_win_in_maximum_and_minimum) {
  EXPECT_THAT(run_binary(maximum, {1, 5, kNaN, 1}, {2, 3, 1, kNaN}), are({2, 5, kNaN, kNaN}));
  EXPECT_THAT(run_binary(minimum, {1, 5, kNaN, 1}, {2, 3, 1, kNaN}), are({1, 3, kNaN, kNaN}));
}

TEST_F(ReferenceKernels, compares_into_booleans) {
  EXPECT_THAT(run_binary(equal, {1, 2, 3, kNaN}, {1, 3, 2, kNaN}), are({1, 0, 0, 0}));
  EXPECT_THAT(run_binary(less, {1, 2, 3, kNaN}, {1, 3, 2, 1}), are({0, 1, 0, 0}));
  EXPECT_THAT(run_binary(less_equal, {1, 2, 3, kNaN}, {1, 3, 2, 1}), are({1, 1, 0, 0}));
  EXPECT_EQ(graph_.type(less(graph_, in({1}), in({1}))).dtype, DType::boolean);
}

TEST_F(ReferenceKernels, selects_by_a_condition) {
  const Value result = where(graph_, in({3}, DType::boolean), in({3}), in({3}));
  EXPECT_THAT(run(result, {{1, 0, 1}, {1, 2, 3}, {10, 20, 30}}), are({1, 20, 3}));
}

TEST_F(ReferenceKernels, casts_with_the_rounding_of_the_target) {
  const auto cast_to = [&](DType dtype, std::vector<double> x) {
    return run(cast(graph_, in({static_cast<std::int64_t>(x.size())}), dtype), {x});
  };
  EXPECT_THAT(cast_to(DType::fp32, {0.1}), are({static_cast<double>(0.1F)}));
  EXPECT_THAT(cast_to(DType::bf16, {1.0 + 0x1p-8, 1.0 + 3 * 0x1p-8}), are({1.0, 1.0 + 0x1p-6}));  // ties to even
  EXPECT_THAT(cast_to(DType::fp16, {1.0 + 0x1p-11, 65504, 1e6}), are({1.0, 65504, kInfinity}));
  EXPECT_THAT(cast_to(DType::int64, {2.9, -2.9, 4e15}), are({2, -2, 4e15}));
  EXPECT_THAT(cast_to(DType::int32, {2.9, -2.9}), are({2, -2}));
  EXPECT_THAT(cast_to(DType::boolean, {0, 0.25, -1}), are({0, 1, 1}));
}

TEST_F(ReferenceKernels, moves_and_compares_integers_exactly) {
  constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;  // not representable as a double
  const std::array<std::int64_t, 4> numbers = {kOdd, kOdd - 1, -kOdd, std::numeric_limits<std::int64_t>::max()};
  const auto run_integers = [&](Value result) {
    const Node& node = graph_.producer_node(result);
    std::vector<TensorLayout> layouts;
    std::vector<void*> addresses;
    const std::vector<ValueLayout> all = value_layouts(graph_);
    for (const Value value : node.inputs) {
      layouts.push_back(all[value.id].layout);
      addresses.push_back(layouts.back().immediate ? nullptr : const_cast<std::int64_t*>(numbers.data()));
    }
    HostTensor output(graph_.type(result));
    const std::vector<TensorLayout> outputs{dense_layout(output.type)};
    void* address = output.data.data();
    device_->make_kernel({graph_, node, layouts, outputs})->launch({addresses.data(), &address, nullptr});
    return output;
  };
  const auto integers = [](const HostTensor& tensor) {
    const std::span<const std::int64_t> values = tensor.as<std::int64_t>();
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  const Value x = in({4}, DType::int64);
  const Value odd = integer_constant(graph_, kOdd, DType::int64);
  EXPECT_THAT(integers(run_integers(copy(graph_, x))), testing::ElementsAreArray(numbers));
  EXPECT_THAT(integers(run_integers(cast(graph_, x, DType::int64))), testing::ElementsAreArray(numbers));
  EXPECT_THAT(integers(run_integers(copy(graph_, odd))), ElementsAre(kOdd));
  EXPECT_THAT(run_integers(equal(graph_, x, odd)).as<std::uint8_t>(), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(run_integers(less(graph_, x, odd)).as<std::uint8_t>(), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(run_integers(less_equal(graph_, x, odd)).as<std::uint8_t>(), ElementsAre(1, 1, 1, 0));
  const Value chosen = where(graph_, broadcast(graph_, constant(graph_, 0.0, DType::boolean), {4}), odd, x);
  EXPECT_THAT(integers(run_integers(chosen)), testing::ElementsAreArray(numbers));
}

// Rounded once: rounded to double first, the first value would be a tie and round to even.
TEST_F(ReferenceKernels, rounds_integers_once) {
  constexpr std::int64_t kAboveATie = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  const Value result = cast(graph_, integer_constant(graph_, kAboveATie, DType::int64), DType::fp32);
  EXPECT_THAT(run(result, {{}}), are({0x1p60 + 0x1p37}));
}

TEST_F(ReferenceKernels, converts_what_an_integer_does_not_hold_to_the_nearest_it_does) {
  const Value wide = cast(graph_, in({3}), DType::int64);
  EXPECT_THAT(run(wide, {{1e300, -kInfinity, kNaN}}), are({0x1p63, -0x1p63, 0}));
  const Value narrow = cast(graph_, in({4}), DType::int32);
  EXPECT_THAT(run(narrow, {{3e9, -3e9, 2147483647.5, kNaN}}), are({2147483647, -2147483648.0, 2147483647, 0}));
}

TEST_F(ReferenceKernels, reads_every_dtype) {
  for (const DType dtype : kAllDTypes) {
    const Value result = cast(graph_, in({3}, dtype), DType::fp64);
    EXPECT_THAT(run(result, {{1, 0, 1}}), are({1, 0, 1})) << name(dtype);
  }
}

TEST_F(ReferenceKernels, broadcasts_operands_of_lower_rank_and_size_one) {
  const Value result = add(graph_, in({2, 1}), in({3}));
  EXPECT_THAT(run(result, {{10, 20}, {1, 2, 3}}), are({11, 12, 13, 21, 22, 23}));
}

TEST_F(ReferenceKernels, takes_constants_as_immediates) {
  const Value result = mul(graph_, in({3}), constant(graph_, 2.5, DType::fp64));
  EXPECT_THAT(run(result, {{1, 2, 4}, {}}), are({2.5, 5, 10}));
}

TEST_F(ReferenceKernels, counts_along_an_axis) {
  EXPECT_THAT(run(iota(graph_, {2, 3}, 0, DType::int64)), are({0, 0, 0, 1, 1, 1}));
  EXPECT_THAT(run(iota(graph_, {2, 3}, 1, DType::fp32)), are({0, 1, 2, 0, 1, 2}));
  const std::vector<double> longer_than_a_run = run(iota(graph_, {3000}, 0, DType::int32));
  for (std::size_t i = 0; i < longer_than_a_run.size(); ++i) ASSERT_EQ(longer_than_a_run[i], i);
}

TEST_F(ReferenceKernels, sums_over_any_axes) {
  std::vector<double> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);  // [2,3,4]: 12 a + 4 b + c
  const auto sum = [&](std::vector<std::int64_t> axes) {
    return run(reduce_sum(graph_, in({2, 3, 4}), std::move(axes)), {x});
  };
  EXPECT_THAT(sum({2}), are({6, 22, 38, 54, 70, 86}));
  EXPECT_THAT(sum({1}), are({12, 15, 18, 21, 48, 51, 54, 57}));
  EXPECT_THAT(sum({0}), are({12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34}));
  EXPECT_THAT(sum({0, 2}), are({60, 92, 124}));
  EXPECT_THAT(sum({-1, 0}), are({60, 92, 124}));
  EXPECT_THAT(sum({0, 1, 2}), are({276}));
  EXPECT_THAT(sum({}), are(x));
}

TEST_F(ReferenceKernels, sums_in_double_whatever_the_dtype) {
  const std::int64_t count = 3001;
  std::vector<double> x(count, 1.0);
  x[0] = 0x1p24;  // in fp32 every further 1 would be lost
  EXPECT_THAT(run(reduce_sum(graph_, in({count}, DType::fp32), {0}), {x}), are({0x1p24 + 3000}));
}

TEST_F(ReferenceKernels, sums_nothing_to_zero) {
  EXPECT_THAT(run(reduce_sum(graph_, in({2, 0}), {1}), {{}}), are({0, 0}));
}

TEST_F(ReferenceKernels, takes_maxima_and_lets_nan_win) {
  const Value result = reduce_max(graph_, in({4, 3}), {1}, true);
  EXPECT_THAT(run(result, {{1, 3, 2, -5, -3, -4, 1, kNaN, 2, kNaN, 7, 8}}), are({3, -3, kNaN, kNaN}));
  EXPECT_THAT(run(reduce_max(graph_, in({2, 3}), {0}), {{1, kNaN, 3, 4, 5, -kInfinity}}), are({4, kNaN, 3}));
}

TEST_F(ReferenceKernels, multiplies_matrices_in_batches) {
  const Value result = matmul(graph_, in({2, 2, 3}), in({2, 3, 2}));
  EXPECT_THAT(run(result, {{1, 2, 3, 4, 5, 6, 1, 0, 0, 0, 1, 0}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}),
              are({22, 28, 49, 64, 7, 8, 9, 10}));
}

TEST_F(ReferenceKernels, multiplies_over_an_empty_inner_dimension_to_zero) {
  EXPECT_THAT(run(matmul(graph_, in({2, 0}), in({0, 2})), {{}, {}}), are({0, 0, 0, 0}));
}

TEST_F(ReferenceKernels, lets_nan_and_infinity_through_a_product_with_zero) {
  EXPECT_THAT(run(matmul(graph_, in({1, 2}), in({2, 1})), {{0, 1}, {kInfinity, 1}}), are({kNaN}));
}

TEST_F(ReferenceKernels, gathers_rows_by_index) {
  const Value result = embedding(graph_, in({3, 2}), in({2, 2}, DType::int64));
  EXPECT_THAT(run(result, {{1, 2, 3, 4, 5, 6}, {2, 0, 1, 2}}), are({5, 6, 1, 2, 3, 4, 5, 6}));
}

TEST_F(ReferenceKernels, sums_gradient_rows_back_by_index) {
  const Value result = embedding_backward(graph_, in({2, 2, 2}), in({2, 2}, DType::int64), 4);
  EXPECT_THAT(run(result, {{1, 2, 3, 4, 5, 6, 7, 8}, {2, 0, 2, 2}}), are({3, 4, 0, 0, 13, 16, 0, 0}));
}

TEST_F(ReferenceKernels, refuses_indices_outside_the_table) {
  const Value gathered = embedding(graph_, in({3, 2}), in({1}, DType::int64));
  const Value summed = embedding_backward(graph_, in({1, 2}), in({1}, DType::int64), 3);
  for (const double index : {-1.0, 3.0}) {
    EXPECT_THROW(run(gathered, {{1, 2, 3, 4, 5, 6}, {index}}), Error);
    EXPECT_THROW(run(summed, {{1, 2}, {index}}), Error);
  }
}

// The result of the node of `build` for these numbers, by definition.
const std::vector<double> kX = {0.25, 0.5, 1, 2};
const std::vector<double> kY = {2, 0.5, 3, 0.125};
const std::vector<double> kCondition = {1, 0, 0, 1};
const std::vector<double> kIndices = {1, 1};

std::optional<double> by_definition(Op op, double x, double y) {
  switch (op) {
    case Op::copy:
    case Op::cast:
    case Op::detach:
    case Op::round_away:  // of numbers that bf16 has, whose low halves are 0
    case Op::join_halves: return x;
    case Op::neg: return -x;
    case Op::exp: return std::exp(x);
    case Op::expm1: return std::expm1(x);
    case Op::log: return std::log(x);
    case Op::sqrt: return std::sqrt(x);
    case Op::rsqrt: return 1 / std::sqrt(x);
    case Op::sigmoid: return 1 / (1 + std::exp(-x));
    case Op::tanh: return std::tanh(x);
    case Op::erf: return std::erf(x);
    case Op::add: return x + y;
    case Op::sub: return x - y;
    case Op::mul: return x * y;
    case Op::div: return x / y;
    case Op::maximum: return std::max(x, y);
    case Op::minimum: return std::min(x, y);
    case Op::equal: return x == y ? 1 : 0;
    case Op::less: return x < y ? 1 : 0;
    case Op::less_equal: return x <= y ? 1 : 0;
    default: return std::nullopt;
  }
}

// Empty for an op that this test does not know; add its values here.
std::vector<double> expected(Op op) {
  switch (op) {
    case Op::where: return {kX[0], kY[1], kY[2], kX[3]};
    case Op::iota: return {0, 0, 1, 1};
    case Op::reduce_sum: return {kX[0] + kX[1], kX[2] + kX[3]};
    case Op::reduce_max: return {kX[1], kX[3]};
    case Op::matmul:
      return {kX[0] * kY[0] + kX[1] * kY[2], kX[0] * kY[1] + kX[1] * kY[3], kX[2] * kY[0] + kX[3] * kY[2],
              kX[2] * kY[1] + kX[3] * kY[3]};
    case Op::matmul_add:
      return {kX[0] * kY[0] + kX[1] * kY[2] + kY[0], kX[0] * kY[1] + kX[1] * kY[3] + kY[1],
              kX[2] * kY[0] + kX[3] * kY[2] + kY[2], kX[2] * kY[1] + kX[3] * kY[3] + kY[3]};
    case Op::top_k: return {kX[1], kX[3]};
    case Op::top_k_backward: return {0, kX[0], 0, kX[1]};
    case Op::expert_order: return {0, 1};
    case Op::grouped_matmul:  // the offsets 1 and 1: no row is of an expert
    case Op::grouped_matmul_weights: return {0, 0, 0, 0};
    // q = kX and k = v = kY have two tokens: o_2 = exp(g_2) beta_1 (q_2 k_1) v_1 + beta_2 (q_2 k_2) v_2. The gradient
    // of q is the same with that of o in its place.
    case Op::linear_attention:
    case Op::linear_attention_backward: return {3, 0.75, 12 * std::exp(0.5) + 4.875, 3 * std::exp(0.5) + 0.203125};
    case Op::embedding: return {kX[2], kX[3], kX[2], kX[3]};
    case Op::embedding_backward: return {0, 0, kX[0] + kX[2], kX[1] + kX[3]};
    case Op::embedding_backward_add: return {kY[0], kY[1], kY[2] + kX[0] + kX[2], kY[3] + kX[1] + kX[3]};
    default: {
      std::vector<double> values;
      for (std::size_t i = 0; i < kX.size(); ++i) {
        if (const std::optional<double> value = by_definition(op, kX[i], kY[i])) values.push_back(*value);
      }
      return values;
    }
  }
}

// A node of `op` on operands of four elements, or of two indices.
Value build(Graph& graph, Op op) {
  const auto in = [&](const char* name, Shape shape, DType dtype = DType::fp64) {
    return input(graph, name, {dtype, std::move(shape)}, Role::data);
  };
  switch (op) {
    case Op::iota: return iota(graph, {2, 2}, 0, DType::fp64);
    case Op::where: return where(graph, in("c", {2, 2}, DType::boolean), in("a", {2, 2}), in("b", {2, 2}));
    case Op::embedding: return embedding(graph, in("table", {2, 2}), in("indices", {2}, DType::int64));
    case Op::embedding_backward:
      return embedding_backward(graph, in("gradient", {2, 2}), in("indices", {2}, DType::int64), 2);
    case Op::embedding_backward_add:
      return embedding_backward_add(graph, in("gradient", {2, 2}), in("indices", {2}, DType::int64),
                                    in("addend", {2, 2}));
    case Op::matmul_add: return matmul_add(graph, in("x", {2, 2}), in("y", {2, 2}), in("z", {2, 2}));
    case Op::top_k: return top_k(graph, in("x", {2, 2}), 1).first;
    case Op::top_k_backward:
      return make_value(graph, op, {in("x", {2, 1}), in("indices", {2, 1}, DType::int64)}, {{"size", std::int64_t{2}}});
    case Op::expert_order: return expert_order(graph, in("choices", {2, 1}, DType::int64), 2).order;
    case Op::grouped_matmul:
      return grouped_matmul(graph, in("x", {2, 2}), in("y", {1, 2, 2}), in("offsets", {2}, DType::int64), false);
    case Op::grouped_matmul_weights:
      return grouped_matmul_weights(graph, in("x", {2, 2}), in("y", {2, 2}), in("offsets", {2}, DType::int64));
    case Op::linear_attention:
    case Op::linear_attention_backward: {
      std::vector<Value> operands = {in("x", {2, 2})};
      while (static_cast<int>(operands.size()) < input_count(op) - 2)
        operands.push_back(in(std::to_string(operands.size()).c_str(), {2, 2}));
      operands.push_back(in("g", {2}));
      operands.push_back(in("beta", {2}));
      return make_value(graph, op, operands, {{"scale", 1.0}, {"delta", false}});
    }
    case Op::cast: return cast(graph, in("x", {2, 2}), DType::fp32);
    case Op::round_away: return round_away(graph, in("x", {2, 2}, DType::fp32));
    case Op::join_halves: return join_halves(graph, in("x", {2, 2}, DType::bf16), in("y", {2, 2}, DType::low_half));
    case Op::reduce_sum: return reduce_sum(graph, in("x", {2, 2}), {1});
    case Op::reduce_max: return reduce_max(graph, in("x", {2, 2}), {1});
    default: {
      std::vector<Value> inputs;
      for (int i = 0; i < input_count(op); ++i) inputs.push_back(in(i == 0 ? "x" : "y", {2, 2}));
      return graph.node(make_node(graph, op, inputs)).outputs[0];
    }
  }
}

// The test covers the list of ops: a new op without a kernel here fails.
TEST(reference_device, runs_every_primitive_in_the_op_list) {
  const std::shared_ptr<Device> device = make_reference_device();
  for (const Op op : kAllOps) {
    const OpClass kind = op_class(op);
    if (kind == OpClass::state || kind == OpClass::view || kind == OpClass::placement) continue;
    if (op == Op::dequantise) continue;  // reads bytes, not numbers: tests/passes/precision/pack_weights_test.cpp
    SCOPED_TRACE(name(op));
    if (kind == OpClass::composite || kind == OpClass::fused || runs_beside(op)) {
      Node node;
      node.op = op;
      EXPECT_FALSE(device->has_kernel(Graph(), node));
      continue;
    }
    Graph graph;
    const Value result = build(graph, op);
    const Node& node = graph.producer_node(result);
    EXPECT_TRUE(device->has_kernel(graph, node));
    std::vector<TestOperand> operands(node.inputs.size());
    bool is_first = true;  // of the numbers
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const DType dtype = graph.type(node.inputs[i]).dtype;
      EXPECT_EQ(device->operand_layout(graph, node, static_cast<int>(i)),
                kind == OpClass::experts || kind == OpClass::recurrence ? OperandLayout::dense : OperandLayout::any);
      operands[i].storage = dtype == DType::boolean ? kCondition
                            : dtype == DType::int64 ? kIndices
                            : is_first              ? kX
                                                    : kY;
      is_first = is_first && dtype != DType::fp64;
    }
    ASSERT_FALSE(expected(op).empty()) << "the test has no values for it";
    EXPECT_THAT(run_node(*device, graph, result, operands), are(expected(op)));
  }
}

TEST(reference_device, makes_no_kernels_for_views_and_composites) {
  const std::shared_ptr<Device> device = make_reference_device();
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2, 2}}, Role::data);
  for (const Value result : {transpose(graph, x, {1, 0}), softmax(graph, x)}) {
    EXPECT_THROW(run_node(*device, graph, result, {{{1, 2, 3, 4}, 0, std::nullopt}}), Error);
  }
}

TEST(reference_device, bounds_its_memory) {
  const std::shared_ptr<Device> device = make_reference_device({.memory_limit_bytes = 4096});
  EXPECT_EQ(device->total_memory_bytes(), 4096u);
  void* address = device->allocate_memory(4096);
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 512, 0u);
  EXPECT_EQ(device->allocate_memory(1), nullptr);
  device->release_memory(address, 4096);
  address = device->allocate_memory(1);
  EXPECT_NE(address, nullptr);
  device->release_memory(address, 1);
  EXPECT_EQ(device->allocate_memory(SIZE_MAX), nullptr);
}

TEST(reference_device, copies_and_clears_memory) {
  const std::shared_ptr<Device> device = make_reference_device();
  EXPECT_EQ(device->kind(), "reference");
  EXPECT_GT(device->total_memory_bytes(), 0u);
  void* address = device->allocate_memory(8);
  const double sent = 1.25;
  double received = 0;
  device->copy_to_device(address, &sent, 8);
  device->copy_to_host(&received, address, 8);
  EXPECT_EQ(received, 1.25);
  device->fill_zero(address, 8);
  device->copy_to_host(&received, address, 8);
  EXPECT_EQ(received, 0.0);
  device->release_memory(address, 8);
  const std::unique_ptr<DeviceTimer> timer = device->make_timer();
  timer->start();
  timer->stop();
  EXPECT_GE(timer->elapsed_ms(), 0.0);
  EXPECT_LT(timer->elapsed_ms(), 1000.0);
}

}  // namespace
}  // namespace ridgepoint
