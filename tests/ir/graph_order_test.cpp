// The order of nodes in a graph, and lookup by name.
#include <gtest/gtest.h>

#include <array>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

std::vector<NodeId> order_of(const Graph& graph) { return {graph.order().begin(), graph.order().end()}; }

struct GraphOrder : testing::Test {
  Graph graph;
  Value x = input(graph, "x", {DType::fp32, {2}}, Role::data);
  Value a = exp(graph, x);
  Value b = neg(graph, a);
  NodeId of(Value value) const { return graph.producer(value); }
};

TEST_F(GraphOrder, puts_nodes_before_the_insertion_point_in_the_order_they_are_made) {
  graph.set_insertion_before(of(b));
  const Value c = tanh(graph, a);
  const Value d = sqrt(graph, c);
  graph.set_insertion_before(of(x));
  const Value e = constant(graph, 1.0, DType::fp32);
  graph.set_insertion_at_end();
  const Value f = neg(graph, d);
  EXPECT_EQ(order_of(graph), (std::vector{of(e), of(x), of(a), of(c), of(d), of(b), of(f)}));
}

TEST_F(GraphOrder, puts_nodes_directly_behind_a_node) {
  graph.set_insertion_behind(of(x));
  const Value c = neg(graph, x);
  const Value d = exp(graph, c);
  graph.set_insertion_behind(of(b));
  const Value e = neg(graph, d);
  EXPECT_EQ(order_of(graph), (std::vector{of(x), of(c), of(d), of(a), of(b), of(e)}));
  graph.erase(std::array{of(e)});
  EXPECT_THROW(graph.set_insertion_behind(of(e)), Error);
}

TEST_F(GraphOrder, moves_a_node_before_another) {
  const Value c = neg(graph, x);
  graph.move_before(of(c), of(a));
  EXPECT_EQ(order_of(graph), (std::vector{of(x), of(c), of(a), of(b)}));
  graph.move_before(of(c), of(c));
  graph.move_before(of(c), of(a));
  EXPECT_EQ(order_of(graph), (std::vector{of(x), of(c), of(a), of(b)}));
  const Value d = constant(graph, 1.0, DType::fp32);
  graph.move_before(of(d), of(x));
  const Value e = neg(graph, b);
  EXPECT_EQ(order_of(graph), (std::vector{of(d), of(x), of(c), of(a), of(b), of(e)}));
}

TEST_F(GraphOrder, closes_the_gap_that_an_erased_node_leaves) {
  const Value c = neg(graph, b);
  graph.erase(std::array{of(c)});
  EXPECT_EQ(order_of(graph), (std::vector{of(x), of(a), of(b)}));
  graph.erase(std::array{of(b), of(b)});
  const Value d = exp(graph, x);
  EXPECT_EQ(order_of(graph), (std::vector{of(x), of(a), of(d)}));
  EXPECT_THROW(graph.set_insertion_before(of(b)), Error);
}

TEST_F(GraphOrder, appends_at_the_end_after_nodes_are_erased) {
  graph.set_insertion_before(of(a));
  graph.erase(std::array{of(b)});
  const Value c = exp(graph, x);
  EXPECT_EQ(order_of(graph).back(), of(c));
}

TEST_F(GraphOrder, is_independent_in_copies_of_a_graph) {
  Graph other = graph;
  other.set_insertion_before(of(a));
  const NodeId in_other = other.producer(neg(other, x));
  EXPECT_EQ(order_of(graph), (std::vector{of(x), of(a), of(b)}));
  EXPECT_EQ(order_of(other), (std::vector{of(x), in_other, of(a), of(b)}));
}

TEST_F(GraphOrder, finds_inputs_by_name_until_they_are_erased) {
  const Value y = input(graph, "y", {DType::fp32, {2}}, Role::state);
  EXPECT_EQ(graph.find_input("y"), y);
  EXPECT_EQ(graph.find_input("x"), x);
  EXPECT_EQ(graph.find_input("z"), std::nullopt);
  graph.erase(std::array{of(y)});
  EXPECT_EQ(graph.find_input("y"), std::nullopt);
}

TEST_F(GraphOrder, follows_a_chain_of_replacements_to_its_end) {
  const Value c = neg(graph, b), d = neg(graph, c), reader = exp(graph, a);
  graph.add_output("reader", reader);
  graph.add_output("a", a);
  graph.replace_uses(std::array{std::pair(a, x), std::pair(x, d)});
  EXPECT_EQ(graph.producer_node(reader).inputs[0], d);
  EXPECT_EQ(*graph.find_output("a"), d);
}

}  // namespace
}  // namespace ridgepoint
