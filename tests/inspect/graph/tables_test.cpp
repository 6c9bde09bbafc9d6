#include "inspect/graph/tables.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <variant>

#include "ridgepoint/ops.h"
#include "tables/table/render.h"

namespace ridgepoint::views {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace ridgepoint::views
