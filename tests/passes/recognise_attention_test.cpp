// Attention written in plain ops: the forms that become the attention op, with the same values and gradients, and
// those near to it that must stay.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/transformer.h"
#include "passes/autocast.h"
#include "passes/pass.h"
#include "ridgepoint/autodiff.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/program.h"
#include "support/run_graph.h"

namespace ridgepoint {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr double kScale = 0.3;

std::size_t count(const Graph& graph, Op op) {
  std::size_t n = 0;
  for (const NodeId id : graph.order()) n += graph.node(id).op == op ? 1 : 0;
  return n;
}

PassOptions on_device_with_kernels(bool has_kernels = true) {
  PassOptions options;
  options.target.has_kernel = [has_kernels](const Graph&, const Node&) { return has_kernels; };
  return options;
}

bool recognise(Graph& graph, const PassOptions& options = on_device_with_kernels()) {
  const bool changed = recognise_attention(graph, options);
  graph.set_insertion_at_end();
  verify(graph);
  check_types(graph);
  EXPECT_EQ(changed, count(graph, Op::attention) > 0);
  return changed;
}

struct Operands {
  Value q, k, v;
};

Value turned(Graph& g, Value x) {
  const int rank = g.type(x).shape.rank();
  std::vector<std::int64_t> order;
  for (int i = 0; i < rank; ++i) order.push_back(i < rank - 2 ? i : 2 * rank - 3 - i);
  return transpose(g, x, order);
}
Value products(Graph& g, const Operands& x) { return matmul(g, x.q, turned(g, x.k)); }
Value scaled_products(Graph& g, const Operands& x) { return scale(g, products(g, x), kScale); }
Value masked(Graph& g, Value scores) { return causal_mask(g, scores, kHidden); }
Value constant_like(Graph& g, Value x, double value) { return constant(g, value, g.type(x).dtype); }

Value softmax_written_out(Graph& g, Value scores) {
  const Value e = exp(g, sub(g, scores, detach(g, reduce_max(g, scores, {-1}, true))));
  return div(g, e, reduce_sum(g, e, {-1}, true));
}

// The mask in plain ops, `row` and `column` of the given shapes.
Value masked_by_positions(Graph& g, Value scores, const Shape& rows, int row_axis, const Shape& columns,
                          int column_axis, DType dtype = DType::fp32) {
  const Value row = shift(g, iota(g, rows, row_axis, dtype), 0.0);
  const Value column = iota(g, columns, column_axis, dtype);
  return where(g, less_equal(g, column, row), scores, constant_like(g, scores, kHidden));
}

struct Form {
  const char* name;
  Value (*build)(Graph&, const Operands&);
  bool causal = false;
  double scale = kScale;
  Shape queries = {2, 3, 5, 4};
  Shape keys = {2, 3, 5, 4};
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

const std::vector<Form>& forms() {
  using X = const Operands&;
  static const std::vector<Form> all = {
      {"scale_on_the_product",
       [](Graph& g, X x) { return matmul(g, softmax_written_out(g, scaled_products(g, x)), x.v); }},
      {"the_softmax_op", [](Graph& g, X x) { return matmul(g, softmax(g, scaled_products(g, x)), x.v); }},
      {"a_causal_mask",
       [](Graph& g, X x) { return matmul(g, softmax_written_out(g, masked(g, scaled_products(g, x))), x.v); }, true},
      {"a_mask_before_the_scale",
       [](Graph& g, X x) { return matmul(g, softmax(g, scale(g, masked(g, products(g, x)), kScale)), x.v); }, true},
      {"a_mask_in_plain_ops",
       [](Graph& g, X x) {
         const Value scores = masked_by_positions(g, scaled_products(g, x), {5, 5}, 0, {5, 5}, 1);
         return matmul(g, softmax_written_out(g, scores), x.v);
       },
       true},
      {"a_mask_of_a_row_and_a_column",
       [](Graph& g, X x) {
         const Value scores = masked_by_positions(g, scaled_products(g, x), {5, 1}, 0, {5}, 0, DType::fp64);
         return matmul(g, softmax_written_out(g, scores), x.v);
       },
       true},
      {"no_scale", [](Graph& g, X x) { return matmul(g, softmax_written_out(g, products(g, x)), x.v); }, false, 1.0},
      {"the_scale_in_q",
       [](Graph& g, X x) {
         return matmul(g, softmax(g, products(g, {scale(g, x.q, kScale), x.k, x.v})), x.v);
       }},
      {"the_scale_in_k",
       [](Graph& g, X x) {
         return matmul(g, softmax(g, products(g, {x.q, scale(g, x.k, kScale), x.v})), x.v);
       }},
      {"the_scale_in_k_once_turned",
       [](Graph& g, X x) { return matmul(g, softmax(g, matmul(g, x.q, scale(g, turned(g, x.k), kScale))), x.v); }},
      {"its_root_in_q_and_in_k",
       [](Graph& g, X x) {
         const Value q = div(g, x.q, constant_like(g, x.q, 2.0));
         const Value k = mul(g, constant_like(g, x.k, 0.25), x.k);
         return matmul(g, softmax(g, products(g, {q, k, x.v})), x.v);
       },
       false, 0.125},
      {"a_division",
       [](Graph& g, X x) {
         const Value scores = products(g, x);
         return matmul(g, softmax_written_out(g, div(g, scores, constant_like(g, scores, 2.0))), x.v);
       },
       false, 0.5},
      {"a_constant_spread_over_the_scores",
       [](Graph& g, X x) {
         const Value scores = products(g, x);
         const Value factor = broadcast(g, constant_like(g, scores, kScale), g.type(scores).shape);
         return matmul(g, softmax_written_out(g, mul(g, scores, factor)), x.v);
       }},
      {"a_maximum_that_is_not_detached",
       [](Graph& g, X x) {
         const Value scores = scaled_products(g, x);
         const Value e = exp(g, sub(g, scores, reduce_max(g, scores, {3}, true)));
         return matmul(g, div(g, e, reduce_sum(g, e, {3}, true)), x.v);
       }},
      {"rows_reduced_without_keeping_their_axis",
       [](Graph& g, X x) {
         const Value scores = scaled_products(g, x);
         const Shape square = g.type(scores).shape;
         const auto spread = [&](Value rows) { return broadcast(g, reshape(g, rows, {2, 3, 5, 1}), square); };
         const Value e = exp(g, sub(g, scores, spread(detach(g, reduce_max(g, scores, {-1})))));
         return matmul(g, div(g, e, spread(reduce_sum(g, e, {-1}))), x.v);
       }},
      {"other_lengths_of_queries_and_keys",
       [](Graph& g, X x) { return matmul(g, softmax_written_out(g, scaled_products(g, x)), x.v); },
       false,
       kScale,
       {3, 5, 4},
       {3, 7, 4}},
      {"matrices",
       [](Graph& g, X x) { return matmul(g, softmax_written_out(g, masked(g, scaled_products(g, x))), x.v); },
       true,
       kScale,
       {6, 4},
       {6, 4}},
      {"heads_moved_and_turned_at_once",  // q, k and v [B,S,H,D]
       [](Graph& g, X x) {
         const Value q = transpose(g, x.q, {0, 2, 1, 3});
         const Value v = transpose(g, x.v, {0, 2, 1, 3});
         const Value scores = scale(g, matmul(g, q, transpose(g, x.k, {0, 2, 3, 1})), kScale);
         return transpose(g, matmul(g, softmax_written_out(g, masked(g, scores)), v), {0, 2, 1, 3});
       },
       true},
      {"keys_of_other_heads",  // leading axes swapped with the last two: other pairs of heads, but pairs all the same
       [](Graph& g, X x) {
         return matmul(g, softmax(g, scale(g, matmul(g, x.q, transpose(g, x.k, {1, 0, 3, 2})), kScale)), x.v);
       },
       false,
       kScale,
       {3, 3, 5, 4},
       {3, 3, 5, 4}},
  };
  return all;
}

Operands declare_operands(Graph& graph, const Form& form, DType dtype) {
  return {input(graph, "q", {dtype, form.queries}, Role::data), input(graph, "k", {dtype, form.keys}, Role::data),
          input(graph, "v", {dtype, form.keys}, Role::data)};
}

// o, and the gradients of sum(o w) by q, k and v; recognised in between where asked for.
Graph gradient_graph(const Form& form, bool recognised, DType dtype = DType::fp64) {
  Graph graph;
  const Operands x = declare_operands(graph, form, dtype);
  graph.add_output("o", form.build(graph, x));
  if (recognised) {
    EXPECT_TRUE(recognise(graph));
  }
  const Value o = *graph.find_output("o");
  const Value w = input(graph, "w", {dtype, form.queries}, Role::data);
  std::vector<std::int64_t> axes;
  for (int i = 0; i < form.queries.rank(); ++i) axes.push_back(i);
  const std::vector<Value> gradients =
      differentiate(graph, reduce_sum(graph, mul(graph, o, w), axes), std::array{x.q, x.k, x.v});
  for (std::size_t i = 0; i < 3; ++i) graph.add_output(std::string("d") + "qkv"[i], gradients[i]);
  return graph;
}

class RecognisedForm : public ::testing::TestWithParam<Form> {};

TEST_P(RecognisedForm, becomes_attention_with_the_same_scale_and_mask) {
  Graph graph;
  graph.add_output("o", GetParam().build(graph, declare_operands(graph, GetParam(), DType::fp32)));
  EXPECT_TRUE(recognise(graph));
  for (const Op op : {Op::matmul, Op::softmax, Op::exp, Op::causal_mask}) EXPECT_EQ(count(graph, op), 0U) << name(op);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::attention) continue;
    EXPECT_NEAR(node.attributes.get<double>("scale"), GetParam().scale, 1e-15);
    EXPECT_EQ(node.attributes.get<bool>("causal"), GetParam().causal);
  }
}

TEST_P(RecognisedForm, keeps_its_values_and_gradients_in_double) {
  const Graph written_out = gradient_graph(GetParam(), false);
  const testing::Tensors inputs = testing::random_inputs(written_out, testing::OpCase{Op::attention, "", nullptr}, 11);
  const testing::Tensors expected = testing::run_graph(written_out, open_device("reference"), inputs);
  const Graph recognised = gradient_graph(GetParam(), true);
  EXPECT_EQ(count(recognised, Op::attention_backward), 1U);
  const testing::Tensors found = testing::run_graph(recognised, open_device("reference"), inputs);
  for (const auto& [tensor, value] : expected) {
    EXPECT_LT(testing::relative_error(found.at(tensor), value), 1e-13) << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(RecogniseAttention, RecognisedForm, ::testing::ValuesIn(forms()),
                         [](const auto& parameter) { return parameter.param.name; });

struct RecogniseAttention : ::testing::Test {
  Value in(const char* name, Shape shape, DType dtype = DType::fp32) {
    return input(g, name, {dtype, shape}, Role::data);
  }
  // For another case in one test: what is left of a case would read the scores of the next.
  void restart() {
    g = Graph();
    x = {in("q", {2, 6, 4}), in("k", {2, 6, 4}), in("v", {2, 6, 4})};
  }
  void finish(Value weights) { g.add_output("o", matmul(g, weights, x.v)); }
  void expect_left() {
    const std::string before = print_graph(g);
    EXPECT_FALSE(recognise(g));
    EXPECT_EQ(print_graph(g), before);
  }

  Graph g;
  Operands x{in("q", {2, 6, 4}), in("k", {2, 6, 4}), in("v", {2, 6, 4})};
};

TEST_F(RecogniseAttention, as_text_leaves_the_op_and_nothing_else) {
  Graph graph = parse_graph(R"(graph "g"
%0:fp32[6,4] = input() {name="q", role="data"} @forward "" ""
%1:fp32[6,4] = input() {name="k", role="data"} @forward "" ""
%2:fp32[6,4] = input() {name="v", role="data"} @forward "" ""
%3:fp32[4,6] = transpose(%1) {permutation=[1,0]} @forward "attn.scores" ""
%4:fp32[6,6] = matmul(%0, %3) @forward "attn.scores" ""
%5:fp32[6,6] = softmax(%4) @forward "attn.softmax" ""
%6:fp32[6,4] = matmul(%5, %2) @forward "attn.values" "model.cpp:7"
output "o" %6
)");
  EXPECT_TRUE(recognise(graph));
  eliminate_dead_code(graph, {});
  const std::string expected = R"(graph "g"
%0:fp32[6,4] = input() {name="q", role="data"} @forward "" ""
%1:fp32[6,4] = input() {name="k", role="data"} @forward "" ""
%2:fp32[6,4] = input() {name="v", role="data"} @forward "" ""
%3:fp32[6,4], %4:fp32[6] = attention(%0, %1, %2) {causal=false, scale=1.0} @forward "attn" "model.cpp:7"
output "o" %3
)";
  EXPECT_EQ(print_graph(parse_graph(print_graph(graph))), expected);
}

TEST_F(RecogniseAttention, reads_a_scaled_operand_that_others_read_as_it_is) {
  const Value q = scale(g, x.q, kScale);
  g.add_output("q.scaled", q);
  finish(softmax(g, products(g, {q, x.k, x.v})));
  EXPECT_TRUE(recognise(g));
  const Node& made = g.producer_node(*g.find_output("o"));
  EXPECT_EQ(made.inputs[0], q);
  EXPECT_EQ(made.attributes.get<double>("scale"), 1.0);
}

TEST_F(RecogniseAttention, rounds_an_operand_once_where_it_was_rounded_once) {
  const auto low = [&](Value value) { return cast(g, value, DType::bf16); };
  const Value scores = matmul(g, low(scale(g, x.q, kScale)), low(turned(g, x.k)));
  g.add_output("o", matmul(g, low(softmax(g, cast(g, scores, DType::fp32))), low(x.v)));
  EXPECT_TRUE(recognise(g));
  const Node& made = g.producer_node(*g.find_output("o"));
  EXPECT_EQ(made.attributes.get<double>("scale"), kScale);
  EXPECT_EQ(g.producer_node(made.inputs[0]).inputs[0], x.q);
  EXPECT_EQ(g.producer_node(made.inputs[1]).inputs[0], x.k);
}

TEST_F(RecogniseAttention, reads_operands_that_were_rounded_and_widened_as_they_are) {
  const auto rounded = [&](Value value) { return cast(g, cast(g, value, DType::bf16), DType::fp32); };
  const Value q = rounded(x.q);
  finish(softmax(g, products(g, {q, x.k, x.v})));
  EXPECT_TRUE(recognise(g));
  EXPECT_EQ(g.producer_node(*g.find_output("o")).inputs[0], q);
}

TEST_F(RecogniseAttention, reads_operands_that_were_rounded_twice_as_they_are) {
  const auto half = [&](Value value) { return cast(g, value, DType::fp16); };
  const Value q = half(cast(g, x.q, DType::bf16));
  const Value scores = cast(g, products(g, {q, half(x.k), x.v}), DType::fp32);
  g.add_output("o", matmul(g, half(softmax(g, scores)), half(x.v)));
  EXPECT_TRUE(recognise(g));
  EXPECT_EQ(g.producer_node(*g.find_output("o")).inputs[0], q);
}

TEST_F(RecogniseAttention, follows_attention_whose_values_are_attention) {
  const Value first = matmul(g, softmax(g, products(g, x)), x.v);
  g.add_output("o", matmul(g, softmax(g, products(g, {first, first, x.v})), first));
  EXPECT_TRUE(recognise(g));
  EXPECT_EQ(count(g, Op::attention), 2U);
}

TEST_F(RecogniseAttention, takes_low_products_around_an_fp32_softmax) {
  for (const Form& form : forms()) {
    Graph graph;
    graph.add_output("o", form.build(graph, declare_operands(graph, form, DType::fp32)));
    autocast(graph, {Precision::bf16});
    const testing::Tensors inputs = testing::random_inputs(graph, testing::OpCase{Op::attention, "", nullptr}, 3);
    const testing::Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
    EXPECT_TRUE(recognise(graph)) << form.name;
    EXPECT_EQ(graph.type(*graph.find_output("o")).dtype, DType::bf16) << form.name;
    const testing::Tensors found = testing::run_graph(graph, open_device("reference"), inputs);
    EXPECT_LT(testing::relative_error(found.at("o"), expected.at("o")), 1e-2) << form.name;
  }
}

TEST_F(RecogniseAttention, takes_products_of_tf32) {
  finish(softmax(g, scaled_products(g, x)));
  autocast(g, {Precision::tf32});
  EXPECT_TRUE(recognise(g));
}

// What must stay.

TEST_F(RecogniseAttention, leaves_a_graph_that_is_already_differentiated) {
  finish(softmax_written_out(g, scaled_products(g, x)));
  const Value loss = reduce_sum(g, *g.find_output("o"), {0, 1, 2});
  g.add_output("dq", differentiate(g, loss, std::array{x.q})[0]);
  expect_left();
}

TEST_F(RecogniseAttention, leaves_what_the_device_has_no_kernel_for) {
  finish(softmax(g, scaled_products(g, x)));
  const std::string before = print_graph(g);
  EXPECT_FALSE(recognise(g, on_device_with_kernels(false)));
  EXPECT_EQ(print_graph(g), before);
}

TEST_F(RecogniseAttention, leaves_what_the_device_can_compute_but_not_differentiate) {
  finish(softmax(g, scaled_products(g, x)));
  PassOptions options;
  options.target.has_kernel = [](const Graph&, const Node& node) { return node.op == Op::attention; };
  EXPECT_FALSE(recognise(g, options));
}

TEST_F(RecogniseAttention, leaves_a_softmax_over_queries) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, detach(g, reduce_max(g, scores, {-2}, true))));
  finish(div(g, e, reduce_sum(g, e, {-2}, true)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_sums_over_keys_and_heads) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, detach(g, reduce_max(g, scores, {-1}, true))));
  finish(div(g, e, reduce_sum(g, e, {0, 2}, true)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_the_sums_of_rows_laid_along_the_columns) {
  for (const bool is_spread : {false, true}) {
    restart();
    const Value q = in("matrix.q", {6, 4});
    const Value scores = products(g, {q, q, q});
    const Value e = exp(g, sub(g, scores, reduce_max(g, scores, {-1}, true)));
    const Value sums = reduce_sum(g, e, {-1});  // [6] meets [6,6] at its last axis
    g.add_output("o", matmul(g, div(g, e, is_spread ? broadcast(g, sums, {6, 6}) : sums), q));
    expect_left();
  }
}

TEST_F(RecogniseAttention, leaves_the_sums_of_columns_laid_along_the_rows) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, reduce_max(g, scores, {-1}, true)));
  finish(div(g, e, reshape(g, reduce_sum(g, e, {-2}), {2, 6, 1})));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_the_sums_of_rows_spread_over_other_rows) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, reduce_max(g, scores, {-1}, true)));
  const Value spread = broadcast(g, reduce_sum(g, e, {-1}, true), {3, 2, 6, 2});
  finish(div(g, e, reshape(g, spread, {2, 6, 6})));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_other_functions_than_exponentials_of_differences) {
  for (const bool is_shifted : {true, false}) {
    restart();
    const Value scores = scaled_products(g, x);
    const Value top = reduce_max(g, scores, {-1}, true);
    const Value f = is_shifted ? expm1(g, sub(g, scores, top)) : exp(g, add(g, scores, top));
    finish(div(g, f, reduce_sum(g, f, {-1}, true)));
    expect_left();
  }
}

TEST_F(RecogniseAttention, leaves_weights_that_are_a_result) {
  const Value weights = softmax(g, scaled_products(g, x));
  g.add_output("weights", weights);
  finish(weights);
  expect_left();
}

TEST_F(RecogniseAttention, leaves_weights_that_multiply_two_values) {
  const Value weights = softmax_written_out(g, scaled_products(g, x));
  g.add_output("other", matmul(g, weights, in("other values", {2, 6, 4})));
  finish(weights);
  expect_left();
}

TEST_F(RecogniseAttention, leaves_scores_that_are_read_elsewhere) {
  const Value scores = scaled_products(g, x);
  g.add_output("largest", reduce_max(g, scores, {0, 1, 2}));
  finish(softmax(g, scores));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_exponentials_shifted_or_divided_by_something_from_outside) {
  Value scores = scaled_products(g, x);
  finish(div(g, exp(g, sub(g, scores, reduce_max(g, scores, {-1}, true))), in("divisor", {2, 6, 1})));
  expect_left();
  restart();
  scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, in("shift", {2, 6, 1})));
  finish(div(g, e, reduce_sum(g, e, {-1}, true)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_row_sums_that_are_a_result) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, detach(g, reduce_max(g, scores, {-1}, true))));
  const Value sums = reduce_sum(g, e, {-1}, true);
  g.add_output("sums", sums);
  finish(div(g, e, sums));
  expect_left();
}

// exp(-1e9 - max) is 0 only where the scores are not themselves as low.
TEST_F(RecogniseAttention, leaves_a_mask_of_finite_fill) {
  finish(softmax(g, causal_mask(g, scaled_products(g, x), -1e9)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_mask_in_plain_ops_of_finite_fill) {
  const Value scores = scaled_products(g, x);
  const Value seen = less_equal(g, iota(g, {6, 6}, 1, DType::fp32), iota(g, {6, 6}, 0, DType::fp32));
  finish(softmax(g, where(g, seen, scores, constant(g, -1e9, DType::fp32))));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_mask_of_zeros) {
  finish(softmax(g, causal_mask(g, scaled_products(g, x), 0.0)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_mask_that_is_negated_with_its_scores) {
  finish(softmax(g, scale(g, masked(g, scale(g, products(g, x), -1.0)), -1.0)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_scores_spread_over_a_batch) {
  for (const bool by_a_mask : {false, true}) {
    restart();
    const Value scores = products(g, {in("one q", {1, 6, 4}), in("one k", {1, 6, 4}), x.v});
    const Value factor = broadcast(g, constant(g, kScale, DType::fp32), {2, 6, 6});
    finish(softmax(g, by_a_mask ? masked_by_positions(g, scores, {2, 6, 6}, 1, {2, 6, 6}, 2) : mul(g, scores, factor)));
    expect_left();
  }
}

TEST_F(RecogniseAttention, leaves_a_mask_from_outside) {
  const Value scores = scaled_products(g, x);
  const Value seen = less(g, in("mask", {6, 6}), constant(g, 0.5, DType::fp32));
  finish(softmax(g, where(g, seen, scores, constant(g, kHidden, DType::fp32))));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_bias_on_the_scores) {
  finish(softmax(g, add(g, scaled_products(g, x), in("bias", {6, 6}))));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_mask_that_shows_the_future) {
  const Value scores = masked_by_positions(g, scaled_products(g, x), {6, 6}, 1, {6, 6}, 0);
  finish(softmax(g, scores));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_mask_one_key_wider) {
  const Value scores = scaled_products(g, x);
  const Value row = shift(g, iota(g, {6, 6}, 0, DType::fp32), 1.0);
  const Value seen = less_equal(g, iota(g, {6, 6}, 1, DType::fp32), row);
  finish(softmax(g, where(g, seen, scores, constant(g, kHidden, DType::fp32))));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_mask_that_hides_the_causal_part) {
  const Value scores = scaled_products(g, x);
  const Value seen = less_equal(g, iota(g, {6, 6}, 1, DType::fp32), iota(g, {6, 6}, 0, DType::fp32));
  finish(softmax(g, where(g, seen, constant(g, kHidden, DType::fp32), scores)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_mask_by_batch_in_place_of_position) {
  const Value scores = masked_by_positions(g, scaled_products(g, x), {2, 6, 1}, 0, {6}, 0);
  finish(softmax(g, scores));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_mask_whose_keys_are_all_numbered_zero) {
  const Value scores = masked_by_positions(g, scaled_products(g, x), {6, 1}, 0, {6, 1}, 1);
  finish(softmax(g, scores));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_positions_too_coarse_to_tell_apart) {
  finish(softmax(g, masked_by_positions(g, scaled_products(g, x), {6, 6}, 0, {6, 6}, 1, DType::bf16)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_causal_mask_of_unequal_lengths) {
  const Operands longer{x.q, in("long k", {2, 9, 4}), in("long v", {2, 9, 4})};
  g.add_output("o", matmul(g, softmax(g, masked(g, scaled_products(g, longer))), longer.v));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_weights_with_dropout) {
  const Value kept = in("kept", {2, 6, 6});
  finish(mul(g, softmax(g, scaled_products(g, x)), kept));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_weights_that_are_scaled) {
  finish(scale(g, softmax(g, scaled_products(g, x)), 0.9));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_scale_that_is_not_constant) {
  finish(softmax(g, mul(g, products(g, x), in("temperature", {}))));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_scale_for_each_head) {
  finish(softmax(g, mul(g, products(g, x), in("temperatures", {2, 1, 1}))));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_scales_that_are_not_positive) {
  for (const double factor : {-0.5, 0.0, kHidden}) {
    restart();
    finish(softmax(g, scale(g, products(g, x), factor)));
    expect_left();
  }
}

TEST_F(RecogniseAttention, leaves_a_scale_too_small_for_a_number) {
  finish(softmax(g, scale(g, scale(g, products(g, x), 1e-200), 1e-200)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_heads_without_elements) {
  const Operands none{in("no q", {2, 6, 0}), in("no k", {2, 6, 0}), in("no v", {2, 6, 0})};
  g.add_output("o", matmul(g, softmax(g, products(g, none)), none.v));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_constant_divided_by_scores) {
  finish(softmax(g, div(g, constant(g, 2.0, DType::fp32), products(g, x))));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_shift_by_the_maximum_of_other_scores) {
  const Value scores = products(g, x);
  const Value scaled = scale(g, scores, kScale);
  const Value e = exp(g, sub(g, scaled, detach(g, reduce_max(g, scores, {-1}, true))));
  finish(div(g, e, reduce_sum(g, e, {-1}, true)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_sum_of_exponentials_of_another_scale) {
  const Value scores = products(g, x);
  const auto exponentials = [&](double factor) {
    const Value scaled = scale(g, scores, factor);
    return exp(g, sub(g, scaled, detach(g, reduce_max(g, scaled, {-1}, true))));
  };
  const Value above = exponentials(0.3);
  finish(div(g, above, reduce_sum(g, exponentials(0.4), {-1}, true)));
  expect_left();
}

// It overflows where the scores pass 88; the op would not, and the values would differ.
TEST_F(RecogniseAttention, leaves_exponentials_without_a_shift) {
  const Value e = exp(g, scaled_products(g, x));
  finish(div(g, e, reduce_sum(g, e, {-1}, true)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_keys_that_are_not_turned) {
  const Operands square{in("square q", {2, 4, 4}), in("square k", {2, 4, 4}), in("square v", {2, 4, 4})};
  g.add_output("o", matmul(g, softmax(g, matmul(g, square.q, square.k)), square.v));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_keys_whose_heads_alone_are_moved) {
  const Value q = in("square q", {2, 2, 4, 4});
  const Value k = transpose(g, in("square k", {2, 2, 4, 4}), {1, 0, 2, 3});
  g.add_output("o", matmul(g, softmax(g, matmul(g, q, k)), q));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_values_of_another_head_size) {
  x.v = in("wide v", {2, 6, 5});
  finish(softmax(g, scaled_products(g, x)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_operands_that_batches_share) {
  for (Value Operands::*shared : {&Operands::q, &Operands::k, &Operands::v}) {
    restart();
    x.*shared = broadcast(g, in("one", {1, 6, 4}), {2, 6, 4});
    finish(softmax(g, scaled_products(g, x)));
    expect_left();
  }
}

TEST_F(RecogniseAttention, leaves_heads_in_groups) {
  const Value q = in("heads of q", {1, 6, 5, 4});
  const auto grouped = [&](const char* name) {
    return reshape(g, broadcast(g, in(name, {1, 2, 1, 5, 4}), {1, 2, 3, 5, 4}), {1, 6, 5, 4});
  };
  const Operands heads{q, grouped("groups of k"), grouped("groups of v")};
  g.add_output("o", matmul(g, softmax(g, scaled_products(g, heads)), heads.v));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_softmax_asked_for_as_plain_ops) {
  finish(g.node(make_node(g, Op::softmax, {scaled_products(g, x)}, {{"plain", true}})).outputs[0]);
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_softmax_in_low_precision) {
  const auto low = [&](Value value) { return cast(g, value, DType::bf16); };
  x = {low(x.q), low(x.k), low(x.v)};
  finish(softmax(g, scaled_products(g, x)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_exponentials_in_low_precision) {
  finish(softmax_written_out(g, scaled_products(g, x)));
  autocast(g, {Precision::bf16, {Op::exp}});
  expect_left();
}

TEST_F(RecogniseAttention, leaves_scores_rounded_below_the_type_of_their_operands) {
  finish(softmax(g, cast(g, cast(g, scaled_products(g, x), DType::bf16), DType::fp32)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_a_softmax_in_double) {
  finish(cast(g, softmax(g, cast(g, scaled_products(g, x), DType::fp64)), DType::fp32));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_products_of_two_types) {
  x.q = cast(g, x.q, DType::bf16);
  x.k = cast(g, x.k, DType::bf16);
  finish(softmax(g, cast(g, products(g, x), DType::fp32)));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_products_of_fp32_before_one_of_a_low_type) {
  x.v = cast(g, x.v, DType::bf16);
  finish(cast(g, softmax(g, scaled_products(g, x)), DType::bf16));
  expect_left();
}

TEST_F(RecogniseAttention, leaves_two_products_without_a_softmax) {
  finish(scaled_products(g, x));
  expect_left();
}

// On the model.

TransformerConfig tiny(AttentionVariant variant, std::int64_t context = 64) {
  TransformerConfig config = transformer_preset("tiny");
  config.attention = variant;
  config.context = context;
  return config;
}

TEST_F(RecogniseAttention, finds_every_layer_of_the_model) {
  const std::shared_ptr<Device> device = open_device("cpu");
  for (const AttentionVariant variant : {AttentionVariant::composite, AttentionVariant::softmax}) {
    const TransformerConfig config = tiny(variant);
    const Graph graph = build_transformer(config, 2, Mode::step, {}, {.fuse_for = device.get()});
    for (const Op op : {Op::attention, Op::attention_backward}) {
      EXPECT_EQ(count(graph, op), static_cast<std::size_t>(config.layers)) << name(variant);
    }
    EXPECT_EQ(count(graph, Op::softmax) + count(graph, Op::causal_mask), 0U) << name(variant);
  }
}

TEST_F(RecogniseAttention, leaves_a_model_whose_scores_are_kept_for_reading) {
  const std::shared_ptr<Device> device = open_device("cpu");
  const Graph graph = build_transformer(tiny(AttentionVariant::composite), 2, Mode::backward, {.activations = true},
                                        {.fuse_for = device.get()});
  EXPECT_EQ(count(graph, Op::attention), 0U);
}

struct Memory {
  std::size_t peak_bytes, before_backward_bytes;
  friend bool operator==(const Memory&, const Memory&) = default;
};
void PrintTo(const Memory& memory, std::ostream* out) {
  *out << "peak " << memory.peak_bytes << ", before backward " << memory.before_backward_bytes;
}

Memory memory_of(const TransformerConfig& config, bool fused) {
  const std::shared_ptr<Device> device = open_device("null");
  Program program(build_transformer(config, 2, Mode::step, {}, {.fuse_for = fused ? device.get() : nullptr}), device);
  program.run();
  return {program.memory_use().peak_allocated_bytes, program.before_backward_bytes()};
}

TEST_F(RecogniseAttention, leaves_no_more_in_memory_than_attention_asked_for_by_name) {
  for (const std::int64_t context : {64, 1024}) {
    const Memory flash = memory_of(tiny(AttentionVariant::flash, context), false);
    EXPECT_EQ(memory_of(tiny(AttentionVariant::composite, context), true), flash);
    EXPECT_EQ(memory_of(tiny(AttentionVariant::softmax, context), true), flash);
    EXPECT_GT(memory_of(tiny(AttentionVariant::softmax, context), false).before_backward_bytes,
              flash.before_backward_bytes);
  }
}

}  // namespace
}  // namespace ridgepoint
