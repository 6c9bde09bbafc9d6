// Attributes that an op has not are refused, in text and where nodes are made.

#include <string>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// The message of the Error (usage) that reading the node ends with; empty if it is read.
std::string refusal(const std::string& node, const std::string& more_of_input = "") {
  return error_of(
      [&] {
        parse_graph("graph \"g\"\n%0:fp32[2,3] = input() {name=\"x\"" + more_of_input +
                    ", role=\"data\"} @forward \"\" \"\"\n" + node + "output \"y\" %0\n");
      },
      ErrorKind::usage);
}

std::string of(const std::string& op, const std::string& attributes) {
  return refusal("%1:fp32[2,3] = " + op + "(%0) {" + attributes + "} @forward \"\" \"\"\n");
}

TEST(Attributes, of_another_op_are_refused_with_those_of_the_op) {
  EXPECT_EQ(of("gelu", "approximate=true, tanh=true"),
            "gelu(fp32[2,3]): gelu has no attribute 'approximate'; it has tanh, plain");
  EXPECT_EQ(of("exp", "axis=1"), "exp(fp32[2,3]): exp has no attribute 'axis'; it has none");
  EXPECT_EQ(of("causal_mask", "fill=-inf, windw=2"),
            "causal_mask(fp32[2,3]): causal_mask has no attribute 'windw'; it has fill, window, plain");
  EXPECT_NE(refusal("", ", colour=3").find("input has no attribute 'colour'; it has name, role"), std::string::npos);
}

TEST(Attributes, have_one_type) {
  EXPECT_EQ(of("causal_mask", "fill=-inf, window=2.0"),
            "causal_mask(fp32[2,3]): the attribute 'window' of causal_mask must be an integer");
  EXPECT_EQ(of("soft_cap", "cap=30"),
            "soft_cap(fp32[2,3]): the attribute 'cap' of soft_cap must be a real number, with a point");
  EXPECT_EQ(of("causal_mask", "fill=-inf, window=2"), "");
  EXPECT_EQ(of("soft_cap", "cap=30.0"), "");
}

TEST(Attributes, of_passes_stand_in_text_as_well) {
  EXPECT_EQ(of("exp", "result_order_0=[1,0]"), "");
  EXPECT_EQ(of("softmax", "plain=true"), "");
  EXPECT_EQ(refusal("", ", frozen=true, indexed_rows=7"), "");
}

TEST(Attributes, are_checked_where_a_node_is_made) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2, 3}}, Role::data);
  EXPECT_THROW(make_node(graph, Op::exp, {x}, {{"scale", 2.0}}), Error);
  EXPECT_NO_THROW(make_node(graph, Op::exp, {x}, {}));
}

}  // namespace
}  // namespace ridgepoint
