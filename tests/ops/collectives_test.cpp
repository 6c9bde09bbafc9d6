// Shapes and costs of collectives, and what they mean between ranks.
#include "ops/collectives.h"

#include <vector>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/rank_threads.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

struct Collectives : ::testing::Test {
  Graph graph;
  Value x = input(graph, "x", {DType::fp32, {6, 4}}, Role::data);
  Value y = input(graph, "y", {DType::bf16, {12}}, Role::data);

  const Node& maker_of(const std::vector<Value>& values) const { return graph.producer_node(values[0]); }
};

TEST_F(Collectives, have_the_shapes_of_their_parts) {
  const std::vector<Value> sums = all_reduce(graph, {x, y}, 3);
  EXPECT_EQ(graph.type(sums[0]), (TensorType{DType::fp32, {6, 4}}));
  EXPECT_EQ(graph.type(sums[1]), (TensorType{DType::bf16, {12}}));
  const std::vector<Value> parts = reduce_scatter(graph, {x, y}, 3);
  EXPECT_EQ(graph.type(parts[0]), (TensorType{DType::fp32, {8}}));
  EXPECT_EQ(graph.type(parts[1]), (TensorType{DType::bf16, {4}}));
  EXPECT_EQ(graph.type(all_gather(graph, {x}, 3)[0]), (TensorType{DType::fp32, {18, 4}}));
  EXPECT_EQ(graph.type(collective_broadcast(graph, {x}, 3, 2)[0]), (TensorType{DType::fp32, {6, 4}}));
}

TEST_F(Collectives, refuse_what_ranks_cannot_share) {
  EXPECT_THAT(error_of([&] { reduce_scatter(graph, {x}, 5); }), HasSubstr("a multiple of the ranks"));
  EXPECT_THAT(error_of([&] { collective_broadcast(graph, {x}, 2, 2); }), HasSubstr("one of the ranks"));
  EXPECT_THAT(error_of([&] { all_reduce(graph, {}, 2); }), HasSubstr("an operand"));
  EXPECT_THAT(error_of([&] { all_reduce(graph, {x}, 0); }), HasSubstr("a rank"));
  const Value indices = input(graph, "i", {DType::int64, {4}}, Role::data);
  EXPECT_THAT(error_of([&] { all_reduce(graph, {indices}, 2); }), HasSubstr("floating"));
}

TEST_F(Collectives, send_what_a_ring_sends) {
  constexpr double kBytes = 6 * 4 * 4 + 12 * 2;
  EXPECT_DOUBLE_EQ(wire_bytes(graph, maker_of(all_reduce(graph, {x, y}, 4))), 2 * 3 * kBytes / 4);
  EXPECT_DOUBLE_EQ(wire_bytes(graph, maker_of(reduce_scatter(graph, {x, y}, 4))), 3 * kBytes / 4);
  EXPECT_DOUBLE_EQ(wire_bytes(graph, maker_of(all_gather(graph, {x, y}, 4))), 3 * kBytes);
  EXPECT_DOUBLE_EQ(wire_bytes(graph, maker_of(collective_broadcast(graph, {x, y}, 4, 0))), kBytes);
  EXPECT_DOUBLE_EQ(wire_bytes(graph, maker_of(all_reduce(graph, {x, y}, 1))), 0);
}

TEST_F(Collectives, print_and_parse) {
  graph.add_output("sum", all_reduce(graph, {x, y}, 4)[1]);
  const std::string text = print_graph(graph);
  EXPECT_THAT(text, HasSubstr("all_reduce"));
  EXPECT_EQ(print_graph(parse_graph(text)), text);
}

HostTensor tensor(const std::vector<float>& values) {
  HostTensor made({DType::fp32, Shape{static_cast<std::int64_t>(values.size())}});
  std::ranges::copy(values, made.as<float>().begin());
  return made;
}

std::vector<float> values_of(const HostTensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

TEST(CollectiveResults, are_those_of_all_ranks) {
  const std::vector<HostTensor> operands = {tensor({1, 2, 3, 4}), tensor({10, 20, 30, 40})};
  using testing::collective_results;
  for (const HostTensor& result : collective_results(Op::all_reduce, operands))
    EXPECT_THAT(values_of(result), ElementsAre(11, 22, 33, 44));
  const std::vector<HostTensor> parts = collective_results(Op::reduce_scatter, operands);
  EXPECT_THAT(values_of(parts[0]), ElementsAre(11, 22));
  EXPECT_THAT(values_of(parts[1]), ElementsAre(33, 44));
  for (const HostTensor& result : collective_results(Op::all_gather, operands))
    EXPECT_THAT(values_of(result), ElementsAre(1, 2, 3, 4, 10, 20, 30, 40));
  for (const HostTensor& result : collective_results(Op::collective_broadcast, operands, 1))
    EXPECT_THAT(values_of(result), ElementsAre(10, 20, 30, 40));
}

}  // namespace
}  // namespace ridgepoint
