#include "inspect/graph/tables.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <variant>

#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

std::string as_text(Table table) { return render(Format::table, Page{.tables = {std::move(table)}}); }

// A product of [4,8] and [8,16], and a fused node of what follows it.
Graph product_and_fused() {
  Graph graph;
  graph.name = "two";
  const Value a = input(graph, "a", {DType::fp32, {4, 8}}, Role::data);
  const Value b = input(graph, "b", {DType::fp32, {8, 16}}, Role::data);
  const Value c = matmul(graph, a, b);
  Graph body;
  body.name = "fused_exp_mul";
  const Value x = input(body, "0", {DType::fp32, {4, 16}}, Role::data);
  const Value y = exp(body, exp(body, x));
  body.add_output("0", mul(body, y, x));
  graph.set_phase(Phase::loss);
  const NodeId fused = add_fused(graph, std::array{c}, std::make_shared<const FusedBody>(std::move(body)));
  graph.add_output("d", graph.node(fused).outputs[0]);
  return graph;
}

TEST(OpTable, counts_operations_and_bytes_and_says_what_fused_nodes_replace) {
  const Table table = op_table(product_and_fused(), Format::csv);
  ASSERT_EQ(table.rows.size(), 3U);
  const Cells& product = table.rows[0].cells;
  EXPECT_EQ(product[1], Cell(std::string("matmul")));
  EXPECT_EQ(product[3], Cell(std::int64_t{1}));
  EXPECT_EQ(product[5], Cell(std::int64_t{2 * 4 * 8 * 16}));
  EXPECT_EQ(product[6], Cell(std::int64_t{4 * (4 * 8 + 8 * 16 + 4 * 16)}));
  const Cells& inputs = table.rows[1].cells;
  EXPECT_EQ(inputs[1], Cell(std::string("input")));
  EXPECT_EQ(inputs[3], Cell(std::int64_t{2}));
  EXPECT_EQ(inputs[4], Cell(std::int64_t{0})) << "inputs launch nothing";
  const Cells& fused = table.rows[2].cells;
  EXPECT_EQ(fused[0], Cell(std::string("loss")));
  EXPECT_EQ(fused[1], Cell(std::string("fused_exp_mul")));
  EXPECT_EQ(fused[6], Cell(std::int64_t{4 * 2 * 4 * 16})) << "it reads its operand once and writes its result";
  EXPECT_THAT(std::get<std::string>(fused[7]), AllOf(HasSubstr("2 exp"), HasSubstr("mul")));
  EXPECT_THAT(as_text(op_table(product_and_fused(), Format::table)),
              AllOf(HasSubstr("4 nodes, 2 launches, 1 of them fused"), HasSubstr("512 B")));
}

TEST(PassTable, has_the_time_of_each_pass_and_what_it_added_and_removed) {
  const NodeCounts before = count_nodes(product_and_fused());
  EXPECT_EQ(before.nodes, 4);
  EXPECT_EQ(before.launches, 2);
  NodeCounts after = before;
  after.nodes = 7;
  after.launches = 5;
  after.by_op[Op::exp] = 4;
  after.by_op.erase(Op::matmul);
  const std::array passes = {PassEffect{{"autocast", false, 0.25}, before, before},
                             PassEffect{{"fuse_elementwise", true, 1.5}, before, after}};
  const std::string text = as_text(pass_table("two", passes));
  EXPECT_THAT(text, HasSubstr("autocast          no       0.25             4      4         2  -"));
  EXPECT_THAT(text, HasSubstr("fuse_elementwise  yes      1.50             4      7         5  "));
  EXPECT_THAT(text, AllOf(HasSubstr("-1 matmul"), HasSubstr("+4 exp"), HasSubstr("2 passes took 1.8 ms")));
}

// What a text in the language of Graphviz has, as far as its rules on quotes, braces and statements go. Throws Error
// where it breaks them.
struct Drawn {
  std::set<std::string> declared;  // names with a statement of their own
  std::set<std::string> ends;      // names in edges
  int clusters = 0;
};

Drawn parse_dot(const std::string& text) {
  Drawn drawn;
  int depth = 0;
  std::string statement;  // without what is in quotes
  const auto finish = [&] {
    if (const std::size_t arrow = statement.find("->"); arrow != std::string::npos) {
      drawn.ends.insert(statement.substr(0, arrow));
      drawn.ends.insert(statement.substr(arrow + 2, statement.find('[') - arrow - 2));
    } else if (const std::size_t bracket = statement.find('['); bracket != std::string::npos) {
      drawn.declared.insert(statement.substr(0, bracket));
    }
    statement.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
        if (i < text.size() && text[i] == '\n') throw Error("a line break in quotes");
      }
      if (i >= text.size()) throw Error("quotes are not closed");
    } else if (c == '{') {
      drawn.clusters += statement.starts_with("subgraphcluster_") ? 1 : 0;
      statement.clear();
      ++depth;
    } else if (c == '}') {
      if (--depth < 0) throw Error("a brace too many");
    } else if (c == ';') {
      finish();
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      statement += c;
    }
  }
  if (depth != 0 || !statement.empty()) throw Error("it ends within a statement: " + statement);
  return drawn;
}

void expect_every_end_declared(const Drawn& drawn) {
  for (const std::string& name : drawn.ends) EXPECT_TRUE(drawn.declared.contains(name)) << name;
}

Graph small() {
  Graph graph;
  graph.name = "small";
  graph.set_scope("layers.0.ffn");
  const Value x = input(graph, "x", {DType::fp32, {4, 8}}, Role::data);
  const Value y = scale(graph, x, 0.5);
  graph.set_scope("layers.0.ln");
  graph.set_phase(Phase::loss);
  graph.add_output("y", exp(graph, y));
  return graph;
}

TEST(Dot, has_clusters_by_scope_colours_by_phase_and_types_on_edges) {
  const std::string text = dot_text(small());
  const Drawn drawn = parse_dot(text);
  EXPECT_EQ(drawn.clusters, 3) << "layers.0 with ffn and ln";
  expect_every_end_declared(drawn);
  EXPECT_THAT(text, HasSubstr("label=\"layers.0\""));
  EXPECT_THAT(text, HasSubstr("[label=\"exp\", fillcolor=\"#fff2cc\"]"));
  EXPECT_THAT(text, HasSubstr("[label=\"input\\nx\", fillcolor=\"#cfe2f3\", shape=ellipse]"));
  EXPECT_THAT(text, HasSubstr("[label=\"fp32[4,8]\"]"));
}

TEST(Dot, writes_constants_at_their_readers) {
  const std::string text = dot_text(small());
  EXPECT_THAT(text, HasSubstr("0.5\""));
  EXPECT_THAT(text, Not(HasSubstr("\"constant")));
}

TEST(Dot, draws_a_constant_that_is_an_output) {
  Graph graph;
  graph.add_output("one", constant(graph, 1.0, DType::fp32));
  const std::string text = dot_text(graph);
  expect_every_end_declared(parse_dot(text));
  EXPECT_THAT(text, HasSubstr("constant\\n1"));
}

TEST(Dot, escapes_whatever_a_name_has) {
  Graph graph;
  graph.name = "a \"graph\"\\";
  graph.set_scope("sco\"pe}.{\\");
  const Value x = input(graph, "in\nput\"; n0 -> n1", {DType::fp32, {4}}, Role::data);
  graph.add_output("out\\", exp(graph, x));
  const std::string text = dot_text(graph);
  const Drawn drawn = parse_dot(text);
  expect_every_end_declared(drawn);
  EXPECT_EQ(drawn.clusters, 2);
  EXPECT_THAT(text, HasSubstr("in\\nput\\\"; n0 -> n1"));
  EXPECT_THAT(text, HasSubstr("out\\\\\""));
}

TEST(Dot, nests_no_deeper_than_a_reader_can_follow) {
  Graph graph;
  std::string scope = "a";
  for (int i = 0; i < 100'000; ++i) scope += ".a";
  graph.set_scope(scope);
  graph.add_output("y", exp(graph, input(graph, "x", {DType::fp32, {4}}, Role::data)));
  EXPECT_EQ(parse_dot(dot_text(graph)).clusters, 16);
}

TEST(Dot, has_dashed_edges_for_updates) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {4}}, Role::state);
  graph.add_update(x, exp(graph, x));
  EXPECT_THAT(dot_text(graph), HasSubstr("[label=\"update\", style=dashed, constraint=false]"));
}

TEST(Dot, has_one_box_for_each_module_and_phase_of_a_large_model) {
  const Graph graph = training_graph(Transformer(transformer_preset("small"), 1).build(), {.mode = Mode::step});
  ASSERT_GT(graph.order().size(), kMostDrawnNodes);
  const std::string text = dot_text(graph);
  const Drawn drawn = parse_dot(text);
  expect_every_end_declared(drawn);
  EXPECT_LT(drawn.declared.size(), kMostDrawnNodes);
  EXPECT_GT(drawn.declared.size(), 100U);
  EXPECT_THAT(text, HasSubstr("one box for each module and phase"));
  EXPECT_THAT(text, HasSubstr("1 matmul"));
  EXPECT_THAT(text, HasSubstr("label=\"layers.11\""));
}

}  // namespace
}  // namespace ridgepoint::tables
