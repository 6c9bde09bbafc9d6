
#include <cmath>

#include "ir/queries.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/op_cases.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(GraphText, round_trips_a_graph_of_every_op) {
  for (const testing::OpCase& op_case : testing::op_cases()) {
    const std::string text = print_graph(op_case.build(DType::fp32));
    EXPECT_EQ(print_graph(parse_graph(text)), text) << op_case.name;
  }
}

TEST(GraphText, round_trips_a_training_step) {
  const TransformerConfig config{"test", 50, 8, 16, 24, 2, 2};
  const std::string text =
      print_graph(testing::transformer_graph(config, 2, Mode::step, {.keep = {.results = true, .gradients = true}}));
  const Graph parsed = parse_graph(text);
  EXPECT_EQ(print_graph(parsed), text);
  EXPECT_EQ(parsed.updates().size(), testing::transformer_graph(config, 2, Mode::step).updates().size());
}

constexpr std::string_view kFused = R"(graph "g"
%0:fp32[2,3] = input() {name="x", role="data"} @forward "" ""
%1:fp32[2,3], %2:fp32[2,1] = fused(%0) @forward "layers.0" "a.cpp:1" from rms_norm
body "fused_exp_reduce_sum"
%0:fp32[2,3] = input() {name="0", role="data"} @forward "" ""
%1:fp32[2,3] = exp(%0) @forward "" ""
%2:fp32[2,1] = reduce_sum(%1) {axes=[1], keep_dims=true} @forward "" ""
output "0" %1
output "1" %2
end
output "y" %1
output "z" %2
)";

TEST(GraphText, round_trips_a_body) {
  const Graph parsed = parse_graph(kFused);
  EXPECT_EQ(print_graph(parsed), kFused);
  const Node& fused = parsed.producer_node(*parsed.find_output("z"));
  ASSERT_NE(fused.body, nullptr);
  EXPECT_EQ(fused.body->graph.name, "fused_exp_reduce_sum");
  EXPECT_EQ(fused.origin, Op::rms_norm);
}

TEST(GraphText, refuses_a_body_that_is_not_of_its_node) {
  const auto message_after = [](std::string_view before, std::string_view after) {
    std::string text(kFused);
    text.replace(text.find(before), before.size(), after);
    return error_of([&] { parse_graph(text); });
  };
  EXPECT_THAT(message_after("end\n", ""), HasSubstr("expected a node, 'output' or 'update', found ''"));
  EXPECT_THAT(message_after("body \"fused_exp_reduce_sum\"\n", ""), HasSubstr("expected 'body'"));
  EXPECT_THAT(message_after("output \"1\" %2\nend", "end"), HasSubstr("its body has 1 outputs, the node 2"));
  EXPECT_THAT(message_after("{name=\"0\"", "{name=\"9\""), HasSubstr("its body has no inputs '0'"));
  EXPECT_THAT(message_after("= fused(%0)", "= fused(%0, %0)"), HasSubstr("its body has 1 inputs, the node 2"));
  EXPECT_THAT(message_after("%0:fp32[2,3] = input() {name=\"x\"", "%0:fp32[2,4] = input() {name=\"x\""),
              HasSubstr("inputs 0 of its body is fp32[2,3], that of the node fp32[2,4]"));
  EXPECT_THAT(message_after("= exp(%0)", "= silu(%0)"), HasSubstr("its body contains 'silu'"));
  EXPECT_THAT(message_after("%1:fp32[2,3] = exp(%0)", "%1:fp32[2,3] = fused(%0)"),
              HasSubstr("a body cannot contain a fused node"));
}

TEST(GraphText, keeps_attributes_exactly) {
  Graph graph;
  const Value x = input(graph, "odd \"name\"\n\\", {DType::fp32, {2, 2}}, Role::data);
  graph.add_output("a", causal_mask(graph, x, -INFINITY));
  graph.add_output("b", shift(graph, x, 0.1));
  graph.add_output("c", shift(graph, x, 3.0));
  graph.add_output("d", shift(graph, x, 1e300));
  graph.add_output("e", shift(graph, x, -0.0));
  const Graph parsed = parse_graph(print_graph(graph));
  EXPECT_TRUE(parsed.find_input("odd \"name\"\n\\").has_value());
  const auto constant_of = [&](const char* output) {
    const Node& add = parsed.producer_node(*parsed.find_output(output));
    return parsed.producer_node(add.inputs[1]).attributes.get<double>("value");
  };
  EXPECT_EQ(parsed.producer_node(*parsed.find_output("a")).attributes.get<double>("fill"), -INFINITY);
  EXPECT_EQ(constant_of("b"), 0.1);
  EXPECT_EQ(constant_of("c"), 3.0);
  EXPECT_EQ(constant_of("d"), 1e300);
  EXPECT_TRUE(std::signbit(constant_of("e")));
}

struct Malformed {
  const char* name;
  const char* text;
  const char* message;
};

class MalformedGraphText : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedGraphText, is_refused_with_line_and_column) {
  EXPECT_THAT(error_of([&] { parse_graph(GetParam().text); }), HasSubstr(GetParam().message));
}

constexpr const char* kHead = "graph \"g\"\n%0:fp32[2] = input() {name=\"x\", role=\"data\"} @forward \"\" \"\"\n";

INSTANTIATE_TEST_SUITE_P(
    texts, MalformedGraphText,
    ::testing::Values(
        Malformed{"empty", "", "expected 'graph'"}, Malformed{"no_name", "graph\n", "line 1, column 6"},
        Malformed{"unknown_op", "graph \"g\"\n%0:fp32[2] = inptu() @forward \"\" \"\"\n", "did you mean 'input'"},
        Malformed{"unknown_dtype", "graph \"g\"\n%0:fp23[2] = input() @forward \"\" \"\"\n", "did you mean 'fp32'"},
        Malformed{"value_from_nowhere", "graph \"g\"\n%1:fp32[2] = exp(%0) @forward \"\" \"\"\n",
                  "%0 is used before it is defined"},
        Malformed{"made_twice",
                  "graph \"g\"\n%0:fp32[] = constant() {dtype=\"fp32\", value=1.0} @forward \"\" \"\"\n%0:fp32[] = "
                  "constant() {dtype=\"fp32\", value=1.0} @forward \"\" \"\"\n",
                  "%0 is defined twice"},
        Malformed{"huge_shape", "graph \"g\"\n%0:fp32[9223372036854775807,9] = input() @forward \"\" \"\"\n", "2^62"},
        Malformed{"rank_seven", "graph \"g\"\n%0:fp32[1,1,1,1,1,1,1] = input() @forward \"\" \"\"\n",
                  "more than 6 dimensions"},
        Malformed{"negative_size", "graph \"g\"\n%0:fp32[-1] = input() @forward \"\" \"\"\n",
                  "sizes must be 0 or more"},
        Malformed{"unknown_phase", "graph \"g\"\n%0:fp32[2] = input() @sideways \"\" \"\"\n",
                  "unknown phase 'sideways'"},
        Malformed{"open_string", "graph \"g", "a string does not end"},
        Malformed{"bad_escape", "graph \"\\xg0\"\n", "two hexadecimal digits"},
        Malformed{"twice_an_attribute",
                  "graph \"g\"\n%0:fp32[2] = input() {name=\"a\", name=\"b\"} @forward \"\" \"\"\n",
                  "'name' is given twice"},
        Malformed{"from_an_unknown_op", "graph \"g\"\n%0:fp32[2] = input() @forward \"\" \"\" from sofmax\n",
                  "did you mean 'softmax'"},
        Malformed{"from_no_composite", "graph \"g\"\n%0:fp32[2] = input() @forward \"\" \"\" from add\n",
                  "must be a composite op or matmul; 'add' is neither"},
        Malformed{"more_on_the_line", "graph \"g\"\n%0:fp32[2] = input() @forward \"\" \"\" form\n",
                  "expected the end of the line"},
        Malformed{"output_of_nothing", "graph \"g\"\noutput \"y\" %3\n", "%3 is used before it is defined"},
        Malformed{"wrong_arity", "graph \"g\"\n%0:fp32[2] = exp() @forward \"\" \"\"\n",
                  "0 inputs found, the op has 1"}),
    [](const auto& tested) { return tested.param.name; });

TEST(GraphText, is_refused_with_a_type_or_a_number_of_results_that_the_op_does_not_have) {
  EXPECT_THROW(parse_graph(std::string(kHead) + "%1:fp32[3] = exp(%0) @forward \"\" \"\"\n"), Error);
  EXPECT_THROW(parse_graph(std::string(kHead) + "%1:fp32[2], %2:fp32[2] = exp(%0) @forward \"\" \"\"\n"), Error);
  const std::string attributes =
      "{beta1=0.9, beta2=0.9, epsilon=0.1, learning_rate=0.1, weight_decay=0.1} @optimizer \"\" \"\"\n";
  const std::string step = "%1:fp32[] = constant() {dtype=\"fp32\", value=1.0} @forward \"\" \"\"\n";
  const std::string update = " = adamw(%1, %0, %0, %0, %0) " + attributes;
  EXPECT_NO_THROW(parse_graph(kHead + step + "%2:fp32[2], %3:fp32[2], %4:fp32[2]" + update));
  EXPECT_THROW(parse_graph(kHead + step + "%2:fp32[2]" + update), Error);
}

TEST(GraphText, keeps_the_origin_of_a_node) {
  const std::string text = std::string(kHead) + "%1:fp32[2] = exp(%0) @backward \"attn\" \"a.cpp:1\" from softmax\n";
  const Graph graph = parse_graph(text);
  EXPECT_EQ(graph.node(graph.order()[0]).origin, std::nullopt);
  EXPECT_EQ(graph.node(graph.order()[1]).origin, Op::softmax);
  EXPECT_EQ(print_graph(graph), text);
}

TEST(GraphText, keeps_integers_that_a_double_does_not_hold) {
  const Graph graph = parse_graph(
      "graph \"g\"\n%0:int64[] = constant() {dtype=\"int64\", value=9007199254740993} @forward \"\" \"\"\n"
      "%1:int64[] = constant() {dtype=\"int64\", value=16777217.0} @forward \"\" \"\"\n");
  EXPECT_EQ(constant_integer(graph.node(graph.order()[0])), 9007199254740993);
  EXPECT_EQ(constant_integer(graph.node(graph.order()[1])), 16777217);
  const Graph again = parse_graph(print_graph(graph));
  EXPECT_EQ(print_graph(again), print_graph(graph));
  for (const char* value : {"1.5", "1e300", "nan", "9223372036854775808.0"}) {
    EXPECT_THROW(parse_graph(std::string("graph \"g\"\n%0:int64[] = constant() {dtype=\"int64\", value=") + value +
                             "} @forward \"\" \"\"\n"),
                 Error)
        << value;
  }
}

}  // namespace
}  // namespace ridgepoint
