
#include <cmath>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr Role kData = Role::data;

TEST(Verify, accepts_a_sound_graph) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2}}, kData);
  graph.add_output("y", exp(graph, x));
  EXPECT_NO_THROW(verify(graph));
}

TEST(Verify, refuses_a_use_before_its_value) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2}}, kData);
  const Value y = exp(graph, x);
  const Value z = exp(graph, y);
  graph.node(graph.producer(y)).inputs[0] = z;
  EXPECT_THROW(verify(graph), Error);
}

TEST(Verify, refuses_a_use_of_an_erased_value) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2}}, kData);
  const Value y = exp(graph, x);
  exp(graph, y);
  const NodeId gone[] = {graph.producer(y)};
  graph.erase(gone);
  EXPECT_THROW(verify(graph), Error);
}

TEST(Verify, refuses_two_inputs_of_one_name) {
  Graph graph;
  input(graph, "x", {DType::fp32, {2}}, kData);
  EXPECT_THROW(input(graph, "x", {DType::fp32, {2}}, kData), Error);
}

// A read of the input gives the value from before the run, at any position.
TEST(Verify, accepts_a_read_of_an_old_value_after_its_update) {
  Graph graph;
  const Value p = input(graph, "p", {DType::fp32, {2}}, Role::parameter);
  const Value updated = shift(graph, p, 1.0);
  graph.add_update(p, updated);
  graph.add_output("y", exp(graph, p));
  graph.add_output("old", p);
  EXPECT_NO_THROW(verify(graph));
}

TEST(Verify, refuses_two_updates_of_one_input_and_updates_of_data) {
  for (const Role role : {Role::parameter, Role::state, Role::data, Role::constant}) {
    Graph graph;
    const Value p = input(graph, "p", {DType::fp32, {2}}, role);
    graph.add_update(p, exp(graph, p));
    const bool may_change = role == Role::parameter || role == Role::state;
    if (may_change) {
      EXPECT_NO_THROW(verify(graph)) << name(role);
      graph.add_update(p, neg(graph, p));
    }
    EXPECT_THROW(verify(graph), Error) << name(role);
  }
}

TEST(Verify, refuses_an_input_without_a_name_or_of_no_known_role) {
  const TensorType types[] = {{DType::fp32, {2}}};
  for (const Attributes& attributes :
       {Attributes{{"role", std::string("data")}}, Attributes{{"name", std::string("x")}},
        Attributes{{"name", std::string("x")}, {"role", std::string("date")}}}) {
    Graph graph;
    graph.add_node(Op::input, {}, types, attributes);
    EXPECT_THROW(verify(graph), Error);
  }
}

TEST(Verify, refuses_results_that_the_op_does_not_make) {
  const TensorType type{DType::fp32, {2}};
  const auto with_results = [&](std::size_t count, const TensorType& first) {
    Graph graph;
    std::vector<Value> operands;
    operands.push_back(input(graph, "step", {DType::fp32, {}}, kData));
    for (const char* operand : {"w", "g", "m", "v"}) operands.push_back(input(graph, operand, type, kData));
    std::vector<TensorType> results(count, type);
    results[0] = first;
    graph.add_node(Op::adamw, operands, results,
                   {{"learning_rate", 0.1}, {"beta1", 0.9}, {"beta2", 0.9}, {"epsilon", 0.1}, {"weight_decay", 0.1}});
    return graph;
  };
  EXPECT_NO_THROW(verify(with_results(3, type)));
  EXPECT_THROW(verify(with_results(1, type)), Error);
  EXPECT_THROW(verify(with_results(4, type)), Error);
  EXPECT_THROW(verify(with_results(3, {DType::bf16, {2}})), Error);
}

TEST(Verify, refuses_an_update_of_another_type) {
  Graph graph;
  const Value p = input(graph, "p", {DType::fp32, {2}}, Role::parameter);
  graph.add_update(p, reduce_sum(graph, p, {0}));
  EXPECT_THROW(verify(graph), Error);
}

TEST(Verify, refuses_an_update_of_what_is_not_an_input) {
  Graph graph;
  const Value p = input(graph, "p", {DType::fp32, {2}}, Role::parameter);
  const Value y = exp(graph, p);
  graph.add_update(y, exp(graph, y));
  EXPECT_THROW(verify(graph), Error);
}

// Both or none: the tables of rotary embedding are operands 6 and 7.
TEST(Verify, refuses_one_of_two_optional_operands) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {5, 4}}, kData);
  const Value rows = input(graph, "rows", {DType::fp32, {5}}, kData);
  const Value table = input(graph, "table", {DType::fp32, {5, 2}}, kData);
  const Attributes attributes{{"causal", true}, {"scale", 0.5}};
  std::vector<Value> operands = {x, x, x, x, x, rows};
  for (const bool is_taken : {true, false, true, false}) {
    if (is_taken) {
      const NodeId made = make_node(graph, Op::attention_backward, operands, attributes);
      EXPECT_NO_THROW(verify(graph));
      if (operands.size() > 6) {
        graph.node(made).inputs.pop_back();
        EXPECT_THROW(verify(graph), Error);
      }
    } else {
      EXPECT_THROW(make_node(graph, Op::attention_backward, operands, attributes), Error);
    }
    operands.push_back(table);
  }
}

TEST(Builders, name_the_op_the_operands_and_the_rule) {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {2, 3}}, kData);
  const Value b = input(graph, "b", {DType::fp32, {4, 5}}, kData);
  EXPECT_EQ(error_of([&] { matmul(graph, a, b); }), "matmul(fp32[2,3], fp32[4,5]): the inner sizes 3 and 4 differ");
  EXPECT_THROW(add(graph, a, b), Error);
  EXPECT_THROW(reshape(graph, a, Shape{5}), Error);
  EXPECT_THROW(transpose(graph, a, {0, 0}), Error);
  EXPECT_THROW(reduce_sum(graph, a, {0, -2}), Error);
  EXPECT_THROW(reduce_sum(graph, a, {2}), Error);
  EXPECT_THROW(add(graph, a, cast(graph, b, DType::bf16)), Error);
  EXPECT_THROW(causal_mask(graph, transpose(graph, a, {1, 0}), 0.0), Error);
}

TEST(Builders, refuse_operands_of_wrong_types) {
  Graph graph;
  const auto in = [&](DType dtype, const Shape& shape) {
    return input(graph, "x" + std::to_string(graph.value_count()), {dtype, shape}, kData);
  };
  const auto refused = [&](Op op, const std::vector<Value>& operands) {
    EXPECT_THROW(make_node(graph, op, operands), Error) << name(op);
  };
  const Value logits = in(DType::bf16, {3, 5});
  const Value targets = in(DType::int64, {3});
  const Value low = in(DType::bf16, {3});
  const Value wide = in(DType::fp32, {3});
  EXPECT_NO_THROW(make_node(graph, Op::cross_entropy_backward, {wide, logits, targets, wide}));
  refused(Op::cross_entropy_backward, {wide, logits, targets, low});
  refused(Op::cross_entropy_backward, {low, logits, targets, wide});
  // Scalars have no rows.
  const Value scalar = in(DType::fp32, {});
  refused(Op::rms_norm_backward, {scalar, scalar, scalar, scalar});
  refused(Op::layer_norm_backward, {scalar, scalar, scalar, scalar, scalar});
  refused(Op::softmax_backward, {scalar, scalar});
}

TEST(Builders, remember_the_line_they_were_called_from) {
  Graph graph;
  const int line = __LINE__;
  const Value x = input(graph, "x", {DType::fp32, {2}}, kData);
  const Value y = exp(graph, x);
  EXPECT_EQ(graph.source_name(graph.producer_node(x)), "tests/ir/verify_test.cpp:" + std::to_string(line + 1));
  EXPECT_EQ(graph.source_name(graph.producer_node(y)), "tests/ir/verify_test.cpp:" + std::to_string(line + 2));
}

TEST(Shape, checks_products_that_overflow) {
  EXPECT_THROW((Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_EQ((Shape{std::int64_t{1} << 40, 0, std::int64_t{1} << 20}).elements(), 0);
  EXPECT_THROW((Shape{-1}), Error);
}

TEST(HostTensor, rounds_to_bf16_and_fp16_nearest_even_in_one_step) {
  const auto round_trip = [](DType dtype, double value) {
    std::uint16_t bits = 0;
    store_element(dtype, &bits, value);
    return load_element(dtype, &bits);
  };
  EXPECT_EQ(round_trip(DType::bf16, 1.0 + 0x1p-8), 1.0);               // a tie rounds to even
  EXPECT_EQ(round_trip(DType::bf16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);  // here: up
  EXPECT_EQ(round_trip(DType::bf16, 1.0 + 0x1p-8 + 0x1p-40), 1.0 + 0x1p-7);
  EXPECT_EQ(round_trip(DType::fp16, 65519.9), 65504.0);
  EXPECT_EQ(round_trip(DType::fp16, 65520.0), INFINITY);
  EXPECT_EQ(round_trip(DType::fp16, 0x1p-24), 0x1p-24);  // the smallest subnormal
  EXPECT_EQ(round_trip(DType::fp16, 0x1p-25), 0.0);
  EXPECT_EQ(round_trip(DType::fp16, 0.1), 0.0999755859375);
  EXPECT_TRUE(std::isnan(round_trip(DType::bf16, NAN)));
  EXPECT_EQ(round_trip(DType::bf16, -INFINITY), -INFINITY);
}

}  // namespace
}  // namespace ridgepoint
