// What products count.
#include <gtest/gtest.h>

#include "ops/rule.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

TEST(Matmul, counts_a_product_and_a_sum_for_each_term_and_the_addend) {
  Graph graph;
  const auto in = [&](const char* name, const Shape& shape) {
    return input(graph, name, {DType::fp32, shape}, Role::data);
  };
  const Value a = in("a", {2, 3, 5}), b = in("b", {2, 5, 7}), c = in("c", {2, 3, 7});
  const auto flops = [&](Value made) { return cost(graph, graph.producer_node(made)).flops; };
  EXPECT_EQ(flops(matmul(graph, a, b)), 2 * (2 * 3 * 7) * 5);
  EXPECT_EQ(flops(matmul_add(graph, a, b, c)), 2 * (2 * 3 * 7) * 5 + 2 * 3 * 7);
}

}  // namespace
}  // namespace ridgepoint
