// Which nodes have one key, so that what is known of one is taken for the other.
#include "ops/node_key.h"

#include <gtest/gtest.h>

#include <set>

#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

TEST(TypedKey, tells_operands_apart_by_their_types_and_constants_by_their_values) {
  Graph graph;
  const auto key = [&](Value made) { return typed_key(graph, graph.producer_node(made)); };
  const auto in = [&](const char* name, DType dtype, const Shape& shape) {
    return input(graph, name, {dtype, shape}, Role::data);
  };
  const Value x = in("x", DType::fp32, {4}), y = in("y", DType::fp32, {4}), scalar = in("s", DType::fp32, {});
  const Value one = constant(graph, 1.0, DType::fp32), two = constant(graph, 2.0, DType::fp32);
  EXPECT_EQ(key(mul(graph, x, scalar)), key(mul(graph, y, scalar)));
  EXPECT_EQ(key(mul(graph, x, one)), key(mul(graph, y, constant(graph, 1.0, DType::fp32))));
  const std::set<std::string> apart = {
      key(mul(graph, x, y)),   key(mul(graph, x, scalar)),
      key(mul(graph, x, one)), key(mul(graph, x, two)),
      key(mul(graph, one, x)), key(mul(graph, in("z", DType::fp32, {5}), one)),
      key(add(graph, x, one)), key(mul(graph, in("low", DType::bf16, {4}), constant(graph, 1.0, DType::bf16)))};
  EXPECT_EQ(apart.size(), 8U);
}

}  // namespace
}  // namespace ridgepoint
