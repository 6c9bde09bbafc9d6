// Products written the way their readers take them, and those that must stay.
#include <gtest/gtest.h>

#include "models/transformer.h"
#include "ops/layout.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/program.h"
#include "support/run_graph.h"

namespace ridgepoint {
namespace {

class OrientMatmuls : public ::testing::Test {
 protected:
  Value data(const std::string& name, const Shape& shape) {
    return input(graph_, name, {DType::fp32, shape}, Role::data);
  }
  bool run() {
    const bool changed = orient_matmuls(graph_, {});
    graph_.set_insertion_at_end();
    verify(graph_);
    check_types(graph_);
    return changed;
  }
  // Runs the pass and expects what every output was before. A product that is itself an output stays as it is.
  void expect_same_values() {
    Graph plain = graph_;
    for (const NodeId id : plain.order()) {
      const Node& node = plain.node(id);
      if (node.op == Op::matmul) plain.add_output("product" + std::to_string(id.id), node.outputs[0]);
    }
    const testing::Tensors inputs = testing::random_inputs(graph_, testing::OpCase{Op::matmul, "", nullptr}, 7);
    const testing::Tensors before = testing::run_graph(plain, open_device("reference"), inputs);
    EXPECT_TRUE(run());
    const testing::Tensors after = testing::run_graph(graph_, open_device("reference"), inputs);
    for (const auto& [name, tensor] : after) EXPECT_EQ(tensor.data, before.at(name).data) << name;
  }
  TensorLayout operand_layout(const char* output) const {
    return value_layouts(graph_)[graph_.producer_node(*graph_.find_output(output)).inputs[0].id].layout;
  }

  Graph graph_;
  Value a_ = data("a", {2, 3, 4});
  Value b_ = data("b", {2, 4, 5});
};

TEST_F(OrientMatmuls, lets_a_transposed_product_lie_dense) {
  graph_.add_output("y", exp(graph_, transpose(graph_, matmul(graph_, a_, b_), {0, 2, 1})));
  EXPECT_FALSE(operand_layout("y").is_dense());
  expect_same_values();
  EXPECT_TRUE(operand_layout("y").is_dense());
}

TEST_F(OrientMatmuls, keeps_the_rest_of_a_permutation) {
  graph_.add_output("y", exp(graph_, transpose(graph_, matmul(graph_, a_, b_), {2, 0, 1})));
  expect_same_values();
  EXPECT_EQ(operand_layout("y").strides[2], 1);
}

TEST_F(OrientMatmuls, serves_several_readers_that_agree) {
  const Value product = matmul(graph_, a_, b_);
  graph_.add_output("y", exp(graph_, transpose(graph_, product, {0, 2, 1})));
  graph_.add_output("z", exp(graph_, transpose(graph_, product, {2, 0, 1})));
  expect_same_values();
}

TEST_F(OrientMatmuls, turns_a_product_of_a_turned_product) {
  const Value inner = transpose(graph_, matmul(graph_, a_, b_), {0, 2, 1});
  const Value outer = matmul(graph_, inner, transpose(graph_, data("c", {2, 6, 3}), {0, 2, 1}));
  graph_.add_output("y", exp(graph_, transpose(graph_, outer, {0, 2, 1})));
  expect_same_values();
  EXPECT_TRUE(operand_layout("y").is_dense());
}

TEST_F(OrientMatmuls, leaves_a_product_that_is_also_read_as_it_is) {
  const Value product = matmul(graph_, a_, b_);
  graph_.add_output("y", exp(graph_, transpose(graph_, product, {0, 2, 1})));
  graph_.add_output("z", exp(graph_, product));
  EXPECT_FALSE(run());
}

TEST_F(OrientMatmuls, leaves_a_product_that_is_a_result) {
  const Value product = matmul(graph_, a_, b_);
  graph_.add_output("y", exp(graph_, transpose(graph_, product, {0, 2, 1})));
  graph_.add_output("product", product);
  EXPECT_FALSE(run());
}

TEST_F(OrientMatmuls, leaves_a_transpose_that_keeps_the_last_axis) {
  graph_.add_output("y", exp(graph_, transpose(graph_, matmul(graph_, a_, b_), {1, 0, 2})));
  EXPECT_FALSE(run());
}

TEST_F(OrientMatmuls, makes_every_gradient_of_the_model_dense) {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 16;
  graph_ = build_transformer(config, 2, Mode::step);
  PassOptions options;
  options.target.has_kernel = [](const Graph&, const Node&) { return true; };
  options.target.operand_layout = [](const Graph&, const Node&, int) { return OperandLayout::any; };
  run_passes(graph_, pipeline(), options);
  const std::vector<ValueLayout> layouts = value_layouts(graph_);
  std::size_t gradients = 0;
  for (const NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    if (node.op != Op::adamw) continue;
    for (std::size_t i = 2; i < node.inputs.size(); i += 4, ++gradients) {
      EXPECT_TRUE(layouts[node.inputs[i].id].layout.is_dense()) << graph_.type(node.inputs[i]).to_string();
    }
  }
  EXPECT_EQ(gradients, 21U);
}

}  // namespace
}  // namespace ridgepoint
