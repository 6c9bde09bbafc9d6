// Rotations written the way their readers take them, and those that must stay.
#include <gtest/gtest.h>

#include "passes/pass.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/program.h"
#include "support/run_graph.h"

namespace ridgepoint {
namespace {

class OrientRotations : public ::testing::Test {
 protected:
  bool run() {
    const bool changed = orient_rotations(graph_, {});
    graph_.set_insertion_at_end();
    verify(graph_);
    check_types(graph_);
    return changed;
  }
  void expect_same_values() {
    const testing::Tensors inputs = testing::random_inputs(graph_, testing::OpCase{Op::rope, "", nullptr}, 7);
    const testing::Tensors before = testing::run_graph(graph_, open_device("reference"), inputs);
    EXPECT_TRUE(run());
    const testing::Tensors after = testing::run_graph(graph_, open_device("reference"), inputs);
    for (const auto& [name, tensor] : after) EXPECT_EQ(tensor.data, before.at(name).data) << name;
  }
  Value read(const char* name, const std::vector<std::int64_t>& permutation) {
    const Value turned = transpose(graph_, rotated_, permutation);
    graph_.add_output(name, exp(graph_, turned));
    return turned;
  }
  bool reads_rotation_directly(const char* output) const {
    return graph_.producer_node(graph_.producer_node(*graph_.find_output(output)).inputs[0]).op == Op::rope;
  }

  Graph graph_;
  Value x_ = input(graph_, "x", {DType::fp32, {2, 5, 3, 4}}, Role::data);
  Value cosines_ = input(graph_, "cosines", {DType::fp32, {5, 2}}, Role::constant);
  Value sines_ = input(graph_, "sines", {DType::fp32, {5, 2}}, Role::constant);
  Value rotated_ = rope(graph_, x_, cosines_, sines_, 1);
};

TEST_F(OrientRotations, moves_heads_before_the_rotation) {
  read("y", {0, 2, 1, 3});
  expect_same_values();
  EXPECT_TRUE(reads_rotation_directly("y"));
}

TEST_F(OrientRotations, serves_a_matrix_and_its_transpose) {
  read("y", {0, 2, 1, 3});
  read("z", {0, 2, 3, 1});
  expect_same_values();
  EXPECT_TRUE(reads_rotation_directly("y"));
}

TEST_F(OrientRotations, turns_an_inverse_rotation_and_one_along_another_axis) {
  rotated_ = rope(graph_, transpose(graph_, x_, {2, 0, 1, 3}), cosines_, sines_, 2, true);
  read("y", {1, 2, 0, 3});
  expect_same_values();
  EXPECT_TRUE(reads_rotation_directly("y"));
}

TEST_F(OrientRotations, leaves_one_whose_readers_disagree) {
  read("y", {0, 2, 1, 3});
  read("z", {1, 0, 2, 3});
  EXPECT_FALSE(run());
}

TEST_F(OrientRotations, leaves_one_that_is_also_read_as_it_is) {
  read("y", {0, 2, 1, 3});
  graph_.add_output("z", exp(graph_, rotated_));
  EXPECT_FALSE(run());
}

TEST_F(OrientRotations, leaves_one_that_is_a_result) {
  read("y", {0, 2, 1, 3});
  graph_.add_output("rotated", rotated_);
  EXPECT_FALSE(run());
}

TEST_F(OrientRotations, leaves_one_whose_last_axis_moves_away) {
  read("y", {3, 0, 1, 2});
  EXPECT_FALSE(run());
}

TEST_F(OrientRotations, leaves_one_that_is_only_transposed_in_its_last_two_axes) {
  read("y", {0, 1, 3, 2});
  EXPECT_FALSE(run());
}

}  // namespace
}  // namespace ridgepoint
