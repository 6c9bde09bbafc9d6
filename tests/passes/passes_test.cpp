// Each pass: that it fires, and that it must not. Graphs are given and compared as text where that reads best.
#include "passes/pass.h"

#include <gtest/gtest.h>

#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

std::size_t count(const Graph& graph, Op op) {
  std::size_t n = 0;
  for (const NodeId id : graph.order()) n += graph.node(id).op == op ? 1 : 0;
  return n;
}

struct Fixture : ::testing::Test {
  Graph graph;
  Value x = input(graph, "x", {DType::fp32, {4, 6}}, Role::data);

  bool run(bool (*pass)(Graph&, const PassOptions&), PassTarget target = {}) {
    PassOptions options;
    options.target = std::move(target);
    const bool changed = pass(graph, options);
    graph.set_insertion_at_end();
    verify(graph);
    check_types(graph);
    return changed;
  }
  Op output_op(const char* name) { return graph.producer_node(*graph.find_output(name)).op; }
};

using EliminateDeadCode = Fixture;

TEST_F(EliminateDeadCode, removes_what_reaches_no_output) {
  const Value y = exp(graph, x);
  exp(graph, neg(graph, y));
  graph.add_output("y", y);
  EXPECT_TRUE(run(eliminate_dead_code));
  EXPECT_EQ(graph.order().size(), 2U);
}

TEST_F(EliminateDeadCode, keeps_updates_and_unused_inputs) {
  input(graph, "unused", {DType::fp32, {1}}, Role::parameter);
  graph.add_update(x, shift(graph, x, 1.0));
  EXPECT_FALSE(run(eliminate_dead_code));
  EXPECT_EQ(count(graph, Op::add), 1U);
  EXPECT_EQ(count(graph, Op::input), 2U);
}

using EliminateCommonSubexpressions = Fixture;

TEST_F(EliminateCommonSubexpressions, keeps_one_of_two_equal_nodes_and_of_what_hangs_on_them) {
  graph.add_output("a", neg(graph, exp(graph, x)));
  graph.add_output("b", neg(graph, exp(graph, x)));
  EXPECT_TRUE(run(eliminate_common_subexpressions));
  EXPECT_EQ(count(graph, Op::exp), 1U);
  EXPECT_EQ(count(graph, Op::neg), 1U);
  EXPECT_EQ(*graph.find_output("a"), *graph.find_output("b"));
}

TEST_F(EliminateCommonSubexpressions, tells_attributes_apart) {
  graph.add_output("a", reduce_sum(graph, x, {0}));
  graph.add_output("b", reduce_sum(graph, x, {0}, true));
  graph.add_output("c", shift(graph, x, 0.0));
  graph.add_output("d", shift(graph, x, -0.0));
  EXPECT_FALSE(run(eliminate_common_subexpressions));
}

TEST_F(EliminateCommonSubexpressions, does_not_keep_a_forward_kernel_alive_for_backward) {
  graph.add_output("a", exp(graph, x));
  graph.set_phase(Phase::backward);
  graph.add_output("b", exp(graph, x));
  EXPECT_FALSE(run(eliminate_common_subexpressions));
}

TEST_F(EliminateCommonSubexpressions, shares_views_across_phases) {
  graph.add_output("a", exp(graph, transpose(graph, x, {1, 0})));
  graph.set_phase(Phase::backward);
  graph.add_output("b", neg(graph, transpose(graph, x, {1, 0})));
  EXPECT_TRUE(run(eliminate_common_subexpressions));
  EXPECT_EQ(count(graph, Op::transpose), 1U);
}

TEST_F(EliminateCommonSubexpressions, never_merges_two_inputs) {
  const Value other = input(graph, "other", {DType::fp32, {4, 6}}, Role::data);
  graph.add_output("y", add(graph, x, other));
  EXPECT_FALSE(run(eliminate_common_subexpressions));
}

using SimplifyAlgebra = Fixture;

TEST_F(SimplifyAlgebra, drops_exact_identities) {
  const Value one = broadcast(graph, constant(graph, 1.0, DType::fp32), Shape{4, 6});
  Value y = mul(graph, x, one);
  y = mul(graph, one, y);
  y = div(graph, y, constant(graph, 1.0, DType::fp32));
  y = sub(graph, y, constant(graph, 0.0, DType::fp32));
  y = add(graph, constant(graph, -0.0, DType::fp32), y);
  y = neg(graph, neg(graph, y));
  y = cast(graph, detach(graph, y), DType::fp32);
  y = where(graph, less(graph, x, x), y, y);
  graph.add_output("y", y);
  EXPECT_TRUE(run(simplify_algebra));
  EXPECT_EQ(*graph.find_output("y"), x);
}

TEST_F(SimplifyAlgebra, keeps_what_changes_a_bit) {
  graph.add_output("plus_zero", shift(graph, x, 0.0));                                      // -0 + 0 is +0
  graph.add_output("minus_minus_zero", sub(graph, x, constant(graph, -0.0, DType::fp32)));  // -0 - -0 is +0
  graph.add_output("times_zero", scale(graph, x, 0.0));                                     // NaN, -0
  graph.add_output("zero_minus", sub(graph, constant(graph, 0.0, DType::fp32), x));         // not neg
  graph.add_output("x_minus_x", sub(graph, x, x));                                          // NaN for infinities
  graph.add_output("through_bf16", cast(graph, cast(graph, x, DType::bf16), DType::fp32));  // rounds
  graph.add_output("chain", scale(graph, scale(graph, x, 3.0), 1.0 / 3.0));                 // rounds twice
  EXPECT_FALSE(run(simplify_algebra));
}

TEST_F(SimplifyAlgebra, keeps_an_identity_that_broadcasts) {
  graph.add_output("y", mul(graph, constant(graph, 1.0, DType::fp32),
                            broadcast(graph, constant(graph, 1.0, DType::fp32), Shape{3})));
  const Value row = input(graph, "row", {DType::fp32, {6}}, Role::data);
  graph.add_output("z", mul(graph, row, broadcast(graph, constant(graph, 1.0, DType::fp32), Shape{4, 6})));
  run(simplify_algebra);
  EXPECT_EQ(output_op("z"), Op::mul);
  EXPECT_EQ(graph.type(*graph.find_output("y")).shape, Shape{3});
}

TEST_F(SimplifyAlgebra, folds_chains_of_views) {
  graph.add_output("identity", transpose(graph, transpose(graph, x, {1, 0}), {1, 0}));
  graph.add_output("reshape", reshape(graph, reshape(graph, x, Shape{24}), Shape{2, 12}));
  graph.add_output("flip", flip(graph, flip(graph, x, 1), 1));
  const Value cube = reshape(graph, x, Shape{2, 2, 6});
  graph.add_output("turn", transpose(graph, transpose(graph, cube, {1, 2, 0}), {1, 2, 0}));
  EXPECT_TRUE(run(simplify_algebra));
  run(eliminate_dead_code);
  EXPECT_EQ(*graph.find_output("identity"), x);
  EXPECT_EQ(*graph.find_output("flip"), x);
  EXPECT_EQ(count(graph, Op::reshape), 2U);
  EXPECT_EQ(count(graph, Op::transpose), 1U);
  EXPECT_EQ(graph.producer_node(*graph.find_output("turn")).attributes.get<std::vector<std::int64_t>>("permutation"),
            (std::vector<std::int64_t>{2, 0, 1}));
}

TEST_F(SimplifyAlgebra, does_not_cancel_flips_of_different_axes) {
  graph.add_output("y", flip(graph, flip(graph, x, 0), 1));
  EXPECT_FALSE(run(simplify_algebra));
}

TEST_F(SimplifyAlgebra, turns_a_reduction_of_one_element_into_a_view) {
  const Value column = reshape(graph, x, Shape{24, 1});
  graph.add_output("y", reduce_max(graph, column, {1}));
  EXPECT_TRUE(run(simplify_algebra));
  EXPECT_EQ(count(graph, Op::reduce_max), 0U);
}

using DecomposeComposites = Fixture;

TEST_F(DecomposeComposites, replaces_what_the_device_lacks_and_only_that) {
  graph.add_output("a", softmax(graph, x));
  graph.add_output("b", silu(graph, x));
  PassTarget target;
  target.has_kernel = [](const Graph&, const Node& node) { return node.op == Op::silu; };
  EXPECT_TRUE(run(decompose_composites, target));
  EXPECT_EQ(count(graph, Op::softmax), 0U);
  EXPECT_EQ(count(graph, Op::exp), 1U);
  EXPECT_EQ(output_op("b"), Op::silu);
  EXPECT_FALSE(run(decompose_composites, target));
}

TEST_F(DecomposeComposites, keeps_phase_and_scope) {
  graph.set_phase(Phase::backward);
  graph.set_scope("layers.3.ln1");
  graph.add_output("y", silu(graph, x));
  graph.set_phase(Phase::forward);
  graph.set_scope("");
  PassTarget target;
  target.has_kernel = [](const Graph&, const Node&) { return false; };
  EXPECT_TRUE(run(decompose_composites, target));
  const Node& made = graph.producer_node(*graph.find_output("y"));
  EXPECT_EQ(made.phase, Phase::backward);
  EXPECT_EQ(graph.scope_name(made), "layers.3.ln1");
}

struct InsertCopies : Fixture {
  static PassTarget asking_for(OperandLayout layout) {
    PassTarget target;
    target.operand_layout = [layout](const Graph&, const Node& node, int) {
      return node.op == Op::copy ? OperandLayout::any : layout;
    };
    return target;
  }
};

TEST_F(InsertCopies, copies_before_a_reshape_that_strides_cannot_express) {
  graph.add_output("y", exp(graph, reshape(graph, transpose(graph, x, {1, 0}), Shape{24})));
  EXPECT_TRUE(run(insert_copies, asking_for(OperandLayout::any)));
  EXPECT_EQ(count(graph, Op::copy), 1U);
}

TEST_F(InsertCopies, leaves_a_reshape_that_strides_can_express) {
  const Value wide = broadcast(graph, reshape(graph, x, Shape{4, 1, 6}), Shape{4, 3, 6});
  graph.add_output("split", exp(graph, reshape(graph, transpose(graph, x, {1, 0}), Shape{2, 3, 4})));
  graph.add_output("under_broadcast", exp(graph, reshape(graph, wide, Shape{2, 2, 3, 6})));
  EXPECT_FALSE(run(insert_copies, asking_for(OperandLayout::any)));
}

TEST_F(InsertCopies, copies_once_for_many_readers) {
  const Value turned = transpose(graph, x, {1, 0});
  graph.add_output("a", exp(graph, turned));
  graph.add_output("b", neg(graph, turned));
  EXPECT_TRUE(run(insert_copies, asking_for(OperandLayout::dense)));
  EXPECT_EQ(count(graph, Op::copy), 1U);
}

TEST_F(InsertCopies, lets_a_matrix_operand_be_transposed_but_not_flipped) {
  const Value square = input(graph, "square", {DType::fp32, {6, 6}}, Role::data);
  graph.add_output("a", matmul(graph, x, transpose(graph, square, {1, 0})));
  EXPECT_FALSE(run(insert_copies, asking_for(OperandLayout::matrix)));
  graph.add_output("b", matmul(graph, flip(graph, x, 1), square));
  EXPECT_TRUE(run(insert_copies, asking_for(OperandLayout::matrix)));
}

// [B,S,H,D] as [B,H,S,D] and as [B,H,D,S].
TEST_F(InsertCopies, copies_heads_once_for_a_matrix_and_its_transpose) {
  for (const bool transpose_first : {false, true}) {
    graph = Graph();
    const Value projected = input(graph, "heads", {DType::fp32, {2, 5, 3, 4}}, Role::data);
    const Value square = input(graph, "square", {DType::fp32, {2, 3, 5, 5}}, Role::data);
    const auto read_turned = [&] {
      graph.add_output("a", matmul(graph, transpose(graph, projected, {0, 2, 3, 1}), square));
    };
    const auto read_plain = [&] {
      graph.add_output("b", matmul(graph, square, transpose(graph, projected, {0, 2, 1, 3})));
    };
    if (transpose_first) read_turned();
    read_plain();
    if (!transpose_first) read_turned();
    EXPECT_TRUE(run(insert_copies, asking_for(OperandLayout::batched_matrix)));
    ASSERT_EQ(count(graph, Op::copy), 1U);
    for (const NodeId id : graph.order()) {
      if (graph.node(id).op != Op::copy) continue;
      EXPECT_EQ(graph.type(graph.node(id).outputs[0]).shape, (Shape{2, 3, 5, 4})) << "rows must stay rows";
    }
  }
}

TEST_F(InsertCopies, takes_a_batch_that_one_stride_reaches_and_a_broadcast_one_as_they_are) {
  const Value dense = input(graph, "dense", {DType::fp32, {2, 3, 5, 4}}, Role::data);
  const Value weight =
      broadcast(graph, input(graph, "weight", {DType::fp32, {3, 4, 6}}, Role::data), Shape{2, 3, 4, 6});
  graph.add_output("a", matmul(graph, dense, weight));
  graph.add_output("b", matmul(graph, transpose(graph, dense, {0, 1, 3, 2}), dense));
  EXPECT_FALSE(run(insert_copies, asking_for(OperandLayout::batched_matrix)));
}

TEST_F(InsertCopies, makes_outputs_dense) {
  graph.add_output("constant", broadcast(graph, constant(graph, 2.0, DType::fp32), Shape{3}));
  graph.add_output("turned", transpose(graph, x, {1, 0}));
  EXPECT_TRUE(run(insert_copies, asking_for(OperandLayout::any)));
  EXPECT_EQ(output_op("constant"), Op::copy);
  EXPECT_EQ(output_op("turned"), Op::copy);
}

TEST(Runner, names_the_nearest_pass_for_an_unknown_one) {
  Graph graph;
  PassOptions options;
  options.skip = {"eliminate_dead_cod"};
  try {
    run_passes(graph, pipeline(), options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'eliminate_dead_code'"), std::string::npos);
  }
}

TEST(Runner, skips_dumps_and_names_the_pass_that_broke_the_graph) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2}}, Role::data);
  graph.add_output("y", exp(graph, x));
  const Pass breaks{"break_the_types", [](Graph& g, const PassOptions&) {
                      g.set_type(*g.find_output("y"), {DType::fp32, {3}});
                      return true;
                    }};
  const Pass passes[] = {{"eliminate_dead_code", eliminate_dead_code}, breaks};
  PassOptions options;
  options.verify = true;
  std::vector<std::string> dumped;
  options.dump = [&](std::string_view pass, const Graph&) { dumped.emplace_back(pass); };
  options.skip = {"break_the_types"};
  EXPECT_EQ(run_passes(graph, passes, options).size(), 1U);
  options.skip.clear();
  try {
    run_passes(graph, passes, options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("after pass 'break_the_types'"), std::string::npos);
  }
  EXPECT_TRUE(dumped.empty());
}

}  // namespace
}  // namespace ridgepoint
