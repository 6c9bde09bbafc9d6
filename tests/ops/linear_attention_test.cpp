// Which operands linear attention refuses, what it counts, and what its builders make. The tests over all ops compare
// its derivative with central differences, and the back ends with the recurrence.

#include <cmath>

#include "backends/reference/reference_device.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

Value rule_of(Graph& graph, const Shape& q, const Shape& k, const Shape& v, const Shape& rows,
              DType rows_dtype = DType::fp32) {
  const auto in = [&](const char* name, DType dtype, const Shape& shape) {
    return input(graph, name, {dtype, shape}, Role::data);
  };
  return gated_delta_rule(graph, in("q", DType::bf16, q), in("k", DType::bf16, k), in("v", DType::bf16, v),
                          in("g", rows_dtype, rows), in("beta", rows_dtype, rows), 0.5);
}

TEST(LinearAttention, refuses_operands_that_do_not_fit) {
  const Shape keys{2, 2, 9, 8}, values{2, 4, 9, 5}, rows{2, 4, 9};
  const auto refused = [](const Shape& q, const Shape& k, const Shape& v, const Shape& of_rows, const char* why,
                          DType dtype = DType::fp32) {
    Graph graph;
    EXPECT_THAT(error_of([&] { rule_of(graph, q, k, v, of_rows, dtype); }), HasSubstr(why));
  };
  Graph graph;
  EXPECT_EQ(graph.type(rule_of(graph, keys, keys, values, rows)), (TensorType{DType::bf16, values}));
  refused(keys, {2, 2, 9, 7}, values, rows, "q and k must be [...,S,Dk] of one shape");
  refused(keys, keys, {4, 9, 5}, rows, "v must be [...,S,Dv] of the rank of q and k");
  refused(keys, keys, {2, 3, 9, 5}, {2, 3, 9}, "the 2 heads of q and k must divide the 3 heads of v");
  refused(keys, keys, {2, 4, 8, 5}, {2, 4, 8}, "as many tokens");
  refused(keys, keys, values, {2, 4, 8}, "g and beta must be fp32[2,4,9], a number for each row of v");
  refused(keys, keys, values, rows, "g and beta must be fp32[2,4,9]", DType::bf16);
  refused({2, 2, 9, 0}, {2, 2, 9, 0}, values, rows, "must not be empty");
}

// Two heads of values and one of keys, a whole chunk of 64 tokens and one token.
TEST(LinearAttention, counts_the_products_of_chunks) {
  Graph graph;
  const Value o = rule_of(graph, {1, 65, 8}, {1, 65, 8}, {2, 65, 4}, {2, 65});
  const auto of_chunk = [](std::int64_t n) {
    return 2 * (2 * n * n * 8) + 2 * (2 * (2 * n * n * 4) + n * n * n / 3 + 3 * (2 * n * 8 * 4));
  };
  EXPECT_EQ(cost(graph, graph.producer_node(o)).flops, of_chunk(64) + of_chunk(1));
}

// Of the states alone, whose products are the only ones with the widths of keys and of values: in backward those of
// forward but for the one with q, and those of the gradients.
TEST(LinearAttention, counts_the_products_of_states_in_backward) {
  constexpr std::int64_t kTokens = 3, kHeads = 2;
  const auto flops = [&](std::int64_t keys, std::int64_t values, bool delta) {
    Graph graph;
    const auto in = [&](const char* name, const Shape& shape) {
      return input(graph, name, {DType::fp32, shape}, Role::data);
    };
    const Shape q{kHeads, kTokens, keys}, v{kHeads, kTokens, values}, rows{kHeads, kTokens};
    const std::vector<Value> operands = {in("d_o", v), in("q", q),    in("k", q),
                                         in("v", v),   in("g", rows), in("beta", rows)};
    const NodeId made = make_node(graph, Op::linear_attention_backward, operands, {{"delta", delta}, {"scale", 1.0}});
    return cost(graph, graph.node(made)).flops;
  };
  for (const bool delta : {false, true}) {
    const std::int64_t of_states = flops(8, 4, delta) - flops(8, 2, delta) - flops(4, 4, delta) + flops(4, 2, delta);
    EXPECT_EQ(of_states, kHeads * (delta ? 8 : 5) * 2 * kTokens * (8 - 4) * (4 - 2)) << delta;
  }
}

TEST(LinearAttention, is_attention_without_softmax_where_nothing_decays) {
  Graph graph;
  const auto in = [&](const char* name, const Shape& shape) {
    return input(graph, name, {DType::fp64, shape}, Role::data);
  };
  const Value x = in("x", {2, 5, 3, 4}), b = in("b", {2, 5, 3, 6}), c = in("c", {2, 5, 3, 6});
  const Value ones = broadcast(graph, constant(graph, 1.0, DType::fp64), {2, 5, 3});
  const Value zeros = broadcast(graph, constant(graph, 0.0, DType::fp64), {3});
  graph.add_output("scan", state_space_scan(graph, x, {ones, zeros, b, c, zeros}));
  const auto heads = [&](Value value) { return transpose(graph, value, {0, 2, 1, 3}); };
  const Value scores = causal_mask(graph, matmul(graph, heads(c), transpose(graph, heads(b), {0, 1, 3, 2})), 0.0);
  graph.add_output("attention", heads(matmul(graph, scores, heads(x))));
  const testing::OpCase any{Op::linear_attention, "", nullptr};
  const testing::Tensors inputs = testing::random_inputs(graph, any, 3);
  const testing::Tensors found = testing::run_graph(std::move(graph), make_reference_device(), inputs);
  EXPECT_LT(testing::relative_error(found.at("scan"), found.at("attention")), 1e-14);
}

TEST(Softplus, is_exact_for_small_and_large_operands) {
  Graph graph;
  graph.add_output("y", softplus(graph, input(graph, "x", {DType::fp32, {5}}, Role::data)));
  HostTensor x({DType::fp32, {5}});
  const float values[] = {-80, -12, -6.9F, 0, 90};
  std::ranges::copy(values, x.as<float>().begin());
  const testing::Tensors found = testing::run_graph(std::move(graph), open_device("cpu"), {{"x", x}});
  for (std::size_t i = 0; i < 5; ++i) {
    const double expected =
        std::max(values[i], 0.0F) + std::log1p(std::exp(-std::fabs(static_cast<double>(values[i]))));
    EXPECT_NEAR(found.at("y").as<float>()[i] / expected, 1, 4e-7) << values[i];
  }
}

}  // namespace
}  // namespace ridgepoint
