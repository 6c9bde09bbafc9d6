// Fusing as a user of the library asks for it.
#include "ridgepoint/compile.h"

#include <gmock/gmock.h>

#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

Graph attention_in_plain_ops() {
  Graph graph;
  const Value q = input(graph, "q", {DType::fp32, {2, 9, 4}}, Role::data);
  const Value k = input(graph, "k", {DType::fp32, {2, 9, 4}}, Role::data);
  const Value v = input(graph, "v", {DType::fp32, {2, 9, 4}}, Role::data);
  const Value scores = scale(graph, matmul(graph, q, transpose(graph, k, {0, 2, 1})), 0.5);
  graph.add_output("o", matmul(graph, softmax(graph, scores), v));
  return graph;
}

TEST(Fuse, gives_a_device_what_it_has_a_kernel_for) {
  Graph graph = attention_in_plain_ops();
  EXPECT_TRUE(fuse(graph, *open_device("cpu")));
  EXPECT_EQ(graph.producer_node(*graph.find_output("o")).op, Op::attention);
  EXPECT_FALSE(fuse(graph, *open_device("cpu")));
}

TEST(Fuse, leaves_a_graph_for_a_device_without_kernels_as_it_is) {
  Graph graph = attention_in_plain_ops();
  const std::string before = print_graph(graph);
  EXPECT_FALSE(fuse(graph, *open_device("reference")));
  EXPECT_EQ(print_graph(graph), before);
}

TEST(Compile, has_names_that_read_back) {
  for (const Compile compile : kAllCompiles) EXPECT_EQ(compile_from_name(name(compile)), compile);
  EXPECT_THAT([] { compile_from_name("fused"); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("did you mean 'fuse'?")));
}

}  // namespace
}  // namespace ridgepoint
