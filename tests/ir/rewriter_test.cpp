// Rewriter and queries on graphs given as text.
#include "ir/rewriter.h"

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// %0 is read by %1 and, through a view, by %3.
constexpr std::string_view kText = R"(graph "g"
%0:fp32[A2,B3] = input() {name="x", role="data"} @forward "" ""
%1:fp32[A2,B3] = neg(%0) @loss "layers.0" "model.cpp:1"
%2:fp32[B3,A2] = transpose(%0) {permutation=[1,0]} @backward "layers.1" "model.cpp:2"
%3:fp32[B3,A2] = exp(%2) @backward "layers.2" "model.cpp:3" from softmax
output "y" %1
output "z" %3
)";

NodeId node_at(const Graph& graph, std::size_t position) { return graph.order()[position]; }
Value value_at(const Graph& graph, std::size_t position) { return graph.node(node_at(graph, position)).outputs[0]; }

std::string text_of(const Graph& graph) { return print_graph(parse_graph(print_graph(graph))); }

TEST(Rewriter, gives_new_nodes_phase_scope_source_and_origin_of_the_replaced_node) {
  Graph graph = parse_graph(kText);
  Rewriter rewriter(graph);
  const NodeId last = node_at(graph, 3);
  rewriter.insert_before(last);
  const Value made[] = {log(graph, value_at(graph, 2))};
  rewriter.replace(last, made);
  EXPECT_TRUE(rewriter.finish());
  rewriter.insert_at_end(node_at(graph, 1));
  EXPECT_EQ(text_of(graph), R"(graph "g"
%0:fp32[A2,B3] = input() {name="x", role="data"} @forward "" ""
%1:fp32[A2,B3] = neg(%0) @loss "layers.0" "model.cpp:1"
%2:fp32[B3,A2] = transpose(%0) {permutation=[1,0]} @backward "layers.1" "model.cpp:2"
%3:fp32[B3,A2] = log(%2) @backward "layers.2" "model.cpp:3" from softmax
output "y" %1
output "z" %3
)");
}

TEST(Rewriter, keeps_an_origin_that_a_new_node_has_already) {
  Graph graph = parse_graph(kText);
  NodeId made;
  {
    Rewriter rewriter(graph);
    rewriter.insert_before(node_at(graph, 3));
    made = graph.producer(neg(graph, value_at(graph, 0)));
    set_origin(graph, made, Op::rms_norm);
  }
  EXPECT_EQ(graph.node(made).origin, Op::rms_norm);
}

TEST(Rewriter, takes_another_scope_where_one_is_given) {
  Graph graph = parse_graph(kText);
  Rewriter rewriter(graph);
  rewriter.insert_before(node_at(graph, 1), "optimizer");
  const Node& made = graph.producer_node(neg(graph, value_at(graph, 0)));
  EXPECT_EQ(graph.scope_name(made), "optimizer");
  EXPECT_EQ(made.phase, Phase::loss);
}

TEST(Rewriter, restores_the_settings_of_the_graph) {
  Graph graph = parse_graph(kText);
  graph.set_phase(Phase::optimizer);
  graph.set_scope("before");
  {
    Rewriter rewriter(graph);
    rewriter.insert_before(node_at(graph, 1));
    EXPECT_EQ(graph.phase(), Phase::loss);
    EXPECT_EQ(graph.scope(), "layers.0");
  }
  EXPECT_EQ(graph.phase(), Phase::optimizer);
  EXPECT_EQ(graph.scope(), "before");
  const NodeId last = graph.producer(neg(graph, value_at(graph, 0)));
  EXPECT_EQ(graph.order().back(), last) << "new nodes stand at the end again";
}

TEST(Rewriter, changes_nothing_before_it_finishes) {
  Graph graph = parse_graph(kText);
  Rewriter rewriter(graph);
  const Value x[] = {value_at(graph, 0)};
  rewriter.replace(node_at(graph, 1), x);
  EXPECT_TRUE(rewriter.is_removed(node_at(graph, 1)));
  EXPECT_FALSE(rewriter.is_removed(node_at(graph, 2)));
  EXPECT_EQ(print_graph(graph), kText);
  EXPECT_TRUE(rewriter.finish());
  EXPECT_EQ(graph.order().size(), 3U);
  EXPECT_EQ(graph.find_output("y"), x[0]);
  EXPECT_FALSE(rewriter.finish()) << "nothing is left to do";
}

TEST(Rewriter, erases_the_nodes_that_it_inserted) {
  Graph graph = parse_graph(kText);
  Rewriter rewriter(graph);
  rewriter.insert_before(node_at(graph, 1));
  const Value kept = neg(graph, value_at(graph, 0));
  rewriter.insert_before(node_at(graph, 1));
  exp(graph, exp(graph, kept));
  rewriter.erase_inserted();
  EXPECT_EQ(graph.order().size(), 5U);
  EXPECT_TRUE(graph.contains(kept));
}

TEST(Rewriter, copies_a_value_with_its_labels) {
  Graph graph = parse_graph(kText);
  Rewriter rewriter(graph);
  rewriter.insert_at_end(node_at(graph, 1));
  EXPECT_EQ(graph.type(rewriter.copy(value_at(graph, 0))).to_string(), "fp32[A2,B3]");
  verify(graph);
}

TEST(Rewriter, rebuilds_a_view_with_another_type) {
  Graph graph = parse_graph(kText);
  Rewriter rewriter(graph);
  rewriter.insert_before(node_at(graph, 3));
  const Value low = cast(graph, value_at(graph, 0), DType::bf16);
  const Value view = rewriter.rebuild_view(value_at(graph, 2), low);
  EXPECT_EQ(graph.type(view).to_string(), "bf16[B3,A2]");
  EXPECT_EQ(graph.scope_name(graph.producer_node(view)), "layers.1");
  verify(graph);
}

TEST(Rewriter, rewrites_outputs_by_name) {
  Graph graph = parse_graph(kText);
  const Value y = *graph.find_output("y");
  const Value x = value_at(graph, 0);
  rewrite_outputs(graph, [&](Output& output) {
    if (output.value == y) output.value = x;
  });
  EXPECT_EQ(graph.find_output("y"), x);
  EXPECT_EQ(graph.outputs().size(), 2U);
}

TEST(Readers, know_the_readers_of_a_value_and_the_outputs) {
  const Graph graph = parse_graph(kText);
  const Readers readers(graph);
  const Value x = value_at(graph, 0);
  EXPECT_THAT(readers.of(x), ElementsAre(node_at(graph, 1), node_at(graph, 2)));
  EXPECT_FALSE(readers.has_only_reader(x, node_at(graph, 1)));
  EXPECT_TRUE(readers.has_only_reader(value_at(graph, 2), node_at(graph, 3)));
  EXPECT_TRUE(readers.is_result(value_at(graph, 3)));
  EXPECT_FALSE(readers.has_only_reader(value_at(graph, 3), node_at(graph, 3))) << "it leaves the graph";
}

TEST(Queries, look_through_views) {
  const Graph graph = parse_graph(R"(graph "g"
%0:fp32[] = constant() {dtype="fp32", value=2.5} @forward "" ""
%1:fp32[1] = reshape(%0) {shape=[1]} @forward "" ""
%2:fp32[4] = broadcast(%1) {shape=[4]} @forward "" ""
%3:fp32[4] = neg(%2) @forward "" ""
%4:int64[] = constant() {dtype="int64", value=9007199254740993} @forward "" ""
output "y" %3
)");
  EXPECT_EQ(view_root(graph, value_at(graph, 2)), value_at(graph, 0));
  EXPECT_EQ(view_root(graph, value_at(graph, 3)), value_at(graph, 3));
  EXPECT_EQ(constant_behind(graph, value_at(graph, 2)), 2.5);
  EXPECT_EQ(constant_behind(graph, value_at(graph, 3)), std::nullopt);
  EXPECT_EQ(constant_integer(graph.node(node_at(graph, 4))), 9007199254740993);
  EXPECT_FALSE(integer_value(graph.node(node_at(graph, 0)).attributes)) << "a double, by its point";
}

TEST(Readers, are_listed_once_each_in_the_order_of_execution) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2}}, Role::data);
  const Value square = mul(graph, x, x);
  const Value sum = add(graph, square, x);
  const Value unread = neg(graph, x);
  const Readers readers(graph);
  EXPECT_THAT(readers.of(x), ElementsAre(graph.producer(square), graph.producer(sum), graph.producer(unread)));
  EXPECT_EQ(readers.of(square).size(), 1U);
  EXPECT_TRUE(readers.of(unread).empty());
  EXPECT_FALSE(readers.is_read_once(graph, x));
}

TEST(Permutation, composes_like_consecutive_transposes) {
  const Permutation first = {2, 0, 1};
  const Permutation second = {1, 2, 0};
  EXPECT_EQ(composed(first, second), (Permutation{0, 1, 2}));
  EXPECT_TRUE(is_identity(composed(first, second)));
  EXPECT_EQ(composed(first, with_last_two_swapped(identity_permutation(3))), (Permutation{2, 1, 0}));
}

}  // namespace
}  // namespace ridgepoint
