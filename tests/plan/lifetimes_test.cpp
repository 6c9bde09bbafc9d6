#include "plan/plan.h"

#include <tuple>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Parts = std::tuple<std::size_t, std::uint32_t, std::uint32_t>;

Parts parts(const Lifetime& lifetime) { return {lifetime.bytes, lifetime.first, lifetime.last}; }

TEST(Lifetimes, are_those_of_the_buffers_then_those_of_the_workspaces) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {300}}, Role::data);
  const Value a = exp(graph, x);
  const Value b = neg(graph, a);
  graph.add_output("c", add(graph, b, x));
  const ExecutionPlan plan = make_plan(graph);
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan, std::vector<std::size_t>{0, 1, 0});
  ASSERT_EQ(lifetimes.size(), plan.buffers.size() + 3);
  EXPECT_EQ(parts(lifetimes[plan.values[x.id].buffer]), Parts(1536, 0, 3)) << "inputs live for ever";
  EXPECT_EQ(parts(lifetimes[plan.values[a.id].buffer]), Parts(1536, 0, 1));
  EXPECT_EQ(parts(lifetimes[plan.values[b.id].buffer]), Parts(1536, 1, 2));
  EXPECT_EQ(parts(lifetimes[plan.steps[2].outputs[0].buffer]), Parts(1536, 2, 3)) << "outputs outlive the run";
  EXPECT_EQ(lifetimes[workspace_index(plan, 0)].bytes, 0u);
  EXPECT_EQ(parts(lifetimes[workspace_index(plan, 1)]), Parts(512, 1, 1));
  EXPECT_THAT(live_bytes_by_step(lifetimes), ElementsAre(3072u, 5120u, 4608u, 3072u));
  EXPECT_EQ(liveness_lower_bound(lifetimes), 5120u);
}

TEST(Lifetimes, of_a_plan_without_buffers_need_nothing) {
  EXPECT_TRUE(lifetimes_of(make_plan(Graph()), {}).empty());
  EXPECT_EQ(liveness_lower_bound({}), 0u);
}

TEST(Lifetimes, whose_sum_overflows_are_an_error) {
  ExecutionPlan plan;
  plan.buffers.resize(3);
  for (Buffer& buffer : plan.buffers) buffer.bytes = std::size_t{1} << 62;
  EXPECT_THROW(lifetimes_of(plan, {}), Error);
}

}  // namespace
}  // namespace ridgepoint
