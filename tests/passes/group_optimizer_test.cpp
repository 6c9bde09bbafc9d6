// Updates of many tensors as one node: when they merge, and what keeps them apart.
#include <gtest/gtest.h>

#include "passes/pass.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/program.h"
#include "support/run_graph.h"

namespace ridgepoint {
namespace {

std::vector<NodeId> updates_in(const Graph& graph) {
  std::vector<NodeId> found;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op == Op::adamw) found.push_back(id);
  }
  return found;
}

class GroupOptimizer : public ::testing::Test {
 protected:
  struct Tensor {
    Value parameter, first, second;
  };

  Tensor tensor(const std::string& name, const Shape& shape) {
    const TensorType type{DType::fp32, shape};
    return {input(graph_, name, type, Role::parameter), input(graph_, name + ".first", type, Role::state),
            input(graph_, name + ".second", type, Role::state)};
  }
  Value data(const std::string& name, const Shape& shape) {
    return input(graph_, name, {DType::fp32, shape}, Role::data);
  }

  // Returns the new parameter.
  Value update(const Tensor& old, Value gradient, Value step, const AdamWOptions& options = {}) {
    const std::array<Value, 3> made = adamw(graph_, step, old.parameter, gradient, old.first, old.second, options);
    graph_.add_update(old.parameter, made[0]);
    graph_.add_update(old.first, made[1]);
    graph_.add_update(old.second, made[2]);
    return made[0];
  }
  // A tensor of its own, updated with a gradient of its own.
  Value update_new(const std::string& name, const Shape& shape, const AdamWOptions& options = {}) {
    const Tensor made = tensor(name, shape);
    return update(made, data(name + ".gradient", shape), step_, options);
  }

  bool run(bool has_kernel = true) {
    PassOptions options;
    options.target.has_kernel = [has_kernel](const Graph&, const Node&) { return has_kernel; };
    const bool changed = group_optimizer(graph_, options);
    graph_.set_insertion_at_end();
    verify(graph_);
    return changed;
  }

  Graph graph_;
  Value step_ = data("step", {});
};

TEST_F(GroupOptimizer, merges_the_updates_of_one_step) {
  graph_.set_phase(Phase::optimizer);
  update_new("a", {3, 4});
  update_new("b", {5});
  update_new("c", {2, 2, 2});
  EXPECT_TRUE(run());
  const std::vector<NodeId> left = updates_in(graph_);
  ASSERT_EQ(left.size(), 1U);
  const Node& merged = graph_.node(left[0]);
  EXPECT_EQ(merged.inputs.size(), 13U);
  EXPECT_EQ(merged.inputs[0], step_);
  EXPECT_EQ(merged.phase, Phase::optimizer);
  ASSERT_EQ(graph_.updates().size(), 9U);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(graph_.updates()[i].value, merged.outputs[i]);
}

TEST_F(GroupOptimizer, computes_the_same_bits) {
  for (const char* name : {"a", "b"}) graph_.add_output(name, exp(graph_, update_new(name, {4, 5})));
  Graph apart = graph_;
  // Both outputs read updated values, so they come after both updates for them to merge.
  graph_ = Graph();
  step_ = data("step", {});
  const Value a = update_new("a", {4, 5});
  const Value b = update_new("b", {4, 5});
  graph_.add_output("a", exp(graph_, a));
  graph_.add_output("b", exp(graph_, b));
  ASSERT_TRUE(run());
  testing::OpCase positive{Op::adamw, "", nullptr};
  positive.low = 0.5;
  const testing::Tensors inputs = testing::random_inputs(graph_, positive, 5);
  const testing::Tensors merged = testing::run_graph(graph_, open_device("reference"), inputs);
  const testing::Tensors single = testing::run_graph(apart, open_device("reference"), inputs);
  for (const char* name : {"a", "b"}) EXPECT_EQ(merged.at(name).data, single.at(name).data) << name;
}

TEST_F(GroupOptimizer, leaves_a_single_update_and_a_device_without_the_kernel_alone) {
  update_new("a", {3});
  EXPECT_FALSE(run());
  update_new("b", {3});
  EXPECT_FALSE(run(false));
  EXPECT_EQ(updates_in(graph_).size(), 2U);
}

TEST_F(GroupOptimizer, keeps_one_node_a_tensor_on_the_cpu) {
  update_new("a", {3});
  update_new("b", {3});
  const Program program(graph_, open_device("cpu"));
  EXPECT_EQ(updates_in(program.graph()).size(), 2U);
}

TEST_F(GroupOptimizer, groups_by_options) {
  AdamWOptions without_decay;
  without_decay.weight_decay = 0;
  update_new("a", {3});
  update_new("a.norm", {3}, without_decay);
  update_new("b", {3});
  update_new("b.norm", {3}, without_decay);
  EXPECT_TRUE(run());
  const std::vector<NodeId> left = updates_in(graph_);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(graph_.node(left[0]).attributes.get<double>("weight_decay"), 0.01);
  EXPECT_EQ(graph_.node(left[1]).attributes.get<double>("weight_decay"), 0.0);
}

TEST_F(GroupOptimizer, does_not_merge_across_steps) {
  update_new("a", {3});
  step_ = data("other_step", {});
  update_new("b", {3});
  EXPECT_FALSE(run());
}

TEST_F(GroupOptimizer, does_not_hold_a_gradient_past_a_kernel) {
  const Value x = data("x", {3});
  update_new("a", {3});
  const Tensor b = tensor("b", {3});
  update(b, exp(graph_, x), step_);
  EXPECT_FALSE(run());
}

TEST_F(GroupOptimizer, ends_before_a_view_of_an_updated_value) {
  const Value a = update_new("a", {2, 3});
  const Value turned = transpose(graph_, a, {1, 0});
  update_new("b", {3});
  graph_.add_output("turned", turned);
  EXPECT_FALSE(run());
}

TEST_F(GroupOptimizer, does_not_merge_an_update_with_one_that_reads_its_result) {
  const Value a = update_new("a", {3});
  update(tensor("b", {3}), a, step_);
  EXPECT_FALSE(run());
}

TEST_F(GroupOptimizer, does_not_write_what_another_update_of_the_launch_reads) {
  const Tensor a = tensor("a", {2, 3});
  const Tensor b = tensor("b", {6});
  update(b, reshape(graph_, a.parameter, Shape{6}), step_);  // reads the old `a`, through a view
  update(a, data("a.gradient", {2, 3}), step_);
  EXPECT_FALSE(run());
}

}  // namespace
}  // namespace ridgepoint
