// Sinks of attention, which correct the result of attention without them.
#include <gtest/gtest.h>

#include "ops/attention_form.h"
#include "ops/rule.h"
#include "passes/graph_lines.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

Graph attention_with_sinks(bool is_plain) {
  Graph graph;
  std::vector<Value> operands;
  for (const char* name : {"q", "k", "v"}) {
    const std::int64_t heads = operands.empty() ? 6 : 2;
    operands.push_back(input(graph, name, {DType::fp32, Shape{2, heads, 9, 8}}, Role::data));
  }
  operands.push_back(input(graph, "sinks", {DType::fp32, Shape{6}}, Role::data));
  Attributes attributes = attributes_of({.scale = 0.35, .causal = true});
  if (is_plain) attributes.set(kPlainAttribute, true);
  const Node& made = graph.node(make_node(graph, Op::attention, operands, attributes));
  const std::vector<Value> results = made.outputs;
  graph.add_output("o", results[0]);
  graph.add_output("lse", results[1]);
  return graph;
}

TEST(SplitSinks, leaves_a_node_without_them_whose_results_are_the_same) {
  Graph graph = attention_with_sinks(false);
  testing::OpCase numbers{Op::input, "", nullptr};
  const testing::Tensors inputs = testing::random_inputs(graph, numbers, 3);
  const testing::Tensors expected = testing::run_graph(attention_with_sinks(true), open_device("reference"), inputs);
  EXPECT_TRUE(split_sinks(graph, PassOptions({.level = Compile::fuse})));
  graph.set_insertion_at_end();
  for (const NodeId id : graph.order()) EXPECT_FALSE(has_sinks(graph.node(id)));
  const testing::Tensors found = testing::run_graph(graph, open_device("cpu"), inputs);
  for (const char* name : {"o", "lse"}) EXPECT_LT(testing::relative_error(found.at(name), expected.at(name)), 1e-5);
}

TEST(SplitSinks, leaves_a_node_that_stores_its_scores) {
  Graph graph = attention_with_sinks(true);
  EXPECT_FALSE(split_sinks(graph, PassOptions({.level = Compile::fuse})));
}

}  // namespace
}  // namespace ridgepoint
