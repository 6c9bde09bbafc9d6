#include "lowering/row_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/rule.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

using Programs = std::optional<std::vector<RowProgram>>;

class RowPrograms : public ::testing::Test {
 protected:
  Value tensor(Shape shape, DType dtype = DType::fp32) {
    return input(graph_, "t" + std::to_string(graph_.node_capacity()), {dtype, std::move(shape)}, Role::data);
  }

  // The programs of the producer of `value`. Operands are dense where `inputs` is empty.
  Programs lower(Value value, std::vector<TensorLayout> inputs = {}) {
    const Node& node = graph_.producer_node(value);
    std::vector<TensorLayout> outputs;
    for (std::size_t i = inputs.size(); i < node.inputs.size(); ++i)
      inputs.push_back(dense_layout(graph_.type(node.inputs[i])));
    for (const Value output : node.outputs) outputs.push_back(dense_layout(graph_.type(output)));
    return lower_to_rows(body_of(graph_, node), inputs, outputs);
  }

  // The programs of a body with inputs "0", "1", ... and outputs "0", "1", ....
  static Programs lower_body(const Graph& body) {
    std::vector<TensorLayout> inputs;
    std::vector<TensorLayout> outputs;
    for (const NodeId id : body.inputs()) inputs.push_back(dense_layout(body.type(body.node(id).outputs[0])));
    for (const Output& output : body.outputs()) outputs.push_back(dense_layout(body.type(output.value)));
    return lower_to_rows(body, inputs, outputs);
  }

  Graph graph_;
};

std::string first_line(const RowProgram& program) {
  const std::string text = print(program);
  return text.substr(0, text.find('\n'));
}

TEST_F(RowPrograms, dense_elementwise_work_is_one_row) {
  const Value x = tensor({4, 5, 6});
  EXPECT_EQ(print(lower(mul(graph_, x, x))->at(0)),
            "space kept [] summed [] columns 120 phases 1\n"
            "%0 column.0 = load 0 fp32[|1]\n"
            "%1 column.0 = load 1 fp32[|1]\n"
            "%2 column.0 = mul %0 %1\n"
            "output 0 element = %2 fp32[|1]\n");
}

TEST_F(RowPrograms, a_broadcast_operand_keeps_its_axis_apart) {
  EXPECT_EQ(first_line(lower(add(graph_, tensor({4, 5, 60}), tensor({60})))->at(0)),
            "space kept [20] summed [] columns 60 phases 1");
  EXPECT_EQ(first_line(lower(add(graph_, tensor({4, 5, 60}), tensor({5, 1})))->at(0)),
            "space kept [4,5] summed [] columns 60 phases 1");
}

TEST_F(RowPrograms, a_constant_operand_is_uniform) {
  EXPECT_EQ(print(lower(scale(graph_, tensor({8}), 0.5))->at(0)),
            "space kept [] summed [] columns 8 phases 1\n"
            "%0 column.0 = load 0 fp32[|1]\n"
            "%1 uniform.0 = constant 0.5\n"
            "%2 column.0 = mul %0 %1\n"
            "output 0 element = %2 fp32[|1]\n");
}

TEST_F(RowPrograms, a_transposed_operand_is_walked_in_the_order_of_the_result) {
  TensorLayout layout = dense_layout({DType::fp32, {30, 40}});
  layout.strides = {1, 30};
  EXPECT_EQ(print(lower(copy(graph_, tensor({30, 40})), {layout})->at(0)),
            "space kept [30] summed [] columns 40 phases 1\n"
            "%0 column.0 = load 0 fp32[1|30]\n"
            "output 0 element = %0 fp32[40|1]\n");
}

TEST_F(RowPrograms, softmax_sweeps_a_row_three_times) {
  EXPECT_EQ(print(lower(softmax(graph_, tensor({2, 3, 64})))->at(0)),
            "space kept [6] summed [] columns 64 phases 3\n"
            "%0 column.0 = load 0 fp32[64|1]\n"
            "%1 row.0 = reduce_max %0\n"
            "%2 column.1 = sub %0 %1\n"
            "%3 column.1 = exp %2\n"
            "%4 row.1 = reduce_sum %3\n"
            "%5 column.2 = div %3 %4\n"
            "output 0 element = %5 fp32[64|1]\n");
}

TEST_F(RowPrograms, causal_mask_compares_a_row_index_with_a_column_index) {
  const std::string text = print(lower(causal_mask(graph_, tensor({6, 4, 9}), -INFINITY))->at(0));
  EXPECT_NE(text.find("space kept [6,4] summed [] columns 9 phases 1"), std::string::npos) << text;
  EXPECT_NE(text.find("row.0 = iota fp32[0,1|0]"), std::string::npos) << text;
  EXPECT_NE(text.find("column.0 = iota fp32[0,0|1]"), std::string::npos) << text;
}

TEST_F(RowPrograms, rms_norm_stores_a_row_value_beside_its_elements) {
  const RowProgram program = lower(rms_norm(graph_, tensor({5, 32}), tensor({32}), 1e-5).first)->at(0);
  ASSERT_EQ(program.outputs.size(), 2u);
  EXPECT_EQ(program.outputs[0].store, RowStore::element);
  EXPECT_EQ(program.outputs[1].store, RowStore::row);
  EXPECT_EQ(program.phases, 2);
}

TEST_F(RowPrograms, rms_norm_backward_sums_columns_over_all_rows) {
  const NodeId node = make_node(graph_, Op::rms_norm_backward,
                                {tensor({2, 5, 32}), tensor({2, 5, 32}), tensor({32}), tensor({2, 5, 1})});
  const RowProgram program = lower(graph_.node(node).outputs[0])->at(0);
  EXPECT_EQ(first_line(program), "space kept [] summed [10] columns 32 phases 2");
  EXPECT_EQ(program.outputs[0].store, RowStore::element);
  EXPECT_EQ(program.outputs[1].store, RowStore::accumulate_columns);
}

TEST_F(RowPrograms, cross_entropy_gives_row_values_only) {
  const auto [loss, log_sum_exp] = cross_entropy(graph_, tensor({7, 50}), tensor({7}, DType::int64));
  const RowProgram program = lower(loss)->at(0);
  EXPECT_EQ(first_line(program), "space kept [7] summed [] columns 50 phases 2");
  for (const RowOutput& output : program.outputs) EXPECT_EQ(output.store, RowStore::row);
}

TEST_F(RowPrograms, a_reduction_keeps_the_dense_axis_as_columns) {
  const Value x = tensor({20, 30, 40, 50});
  const auto line = [&](std::vector<std::int64_t> axes) {
    return first_line(lower(reduce_sum(graph_, x, std::move(axes)))->at(0));
  };
  EXPECT_EQ(line({3}), "space kept [24000] summed [] columns 50 phases 1");
  EXPECT_EQ(line({0}), "space kept [] summed [20] columns 60000 phases 1");
  EXPECT_EQ(line({1}), "space kept [20] summed [30] columns 2000 phases 1");
  EXPECT_EQ(line({1, 3}), "space kept [20,40] summed [30] columns 50 phases 1");
  EXPECT_EQ(line({0, 2}), "space kept [30] summed [20,40] columns 50 phases 1");
  EXPECT_EQ(line({0, 1, 2, 3}), "space kept [] summed [] columns 1200000 phases 1");
}

TEST_F(RowPrograms, a_short_dense_axis_gives_way_to_a_longer_one) {
  EXPECT_EQ(print(lower(reduce_sum(graph_, tensor({1000, 3}), {0}))->at(0)),
            "space kept [3] summed [] columns 1000 phases 1\n"
            "%0 column.0 = load 0 fp32[1|3]\n"
            "%1 row.0 = reduce_sum %0\n"
            "output 0 row = %1 fp32[1|0]\n");
}

TEST_F(RowPrograms, a_reduction_over_size_1_axes_is_a_copy) {
  EXPECT_EQ(print(lower(reduce_max(graph_, tensor({1, 9}), {0}))->at(0)),
            "space kept [] summed [] columns 9 phases 1\n"
            "%0 column.0 = load 0 fp32[|1]\n"
            "output 0 element = %0 fp32[|1]\n");
}

TEST_F(RowPrograms, tensors_that_share_only_a_scalar_become_programs_of_their_own) {
  const Value step = tensor({});
  std::vector<Value> operands{step};
  for (const Shape& shape : {Shape{4, 8}, Shape{16}}) {
    for (int i = 0; i < 4; ++i) operands.push_back(tensor(shape));
  }
  const NodeId node =
      make_node(graph_, Op::adamw, operands,
                {{"learning_rate", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.01}});
  const Programs programs = lower(graph_.node(node).outputs[0]);
  ASSERT_EQ(programs->size(), 2u);
  EXPECT_EQ(first_line(programs->at(0)), "space kept [] summed [] columns 32 phases 1");
  EXPECT_EQ(first_line(programs->at(1)), "space kept [] summed [] columns 16 phases 1");
  EXPECT_EQ(programs->at(1).outputs[0].output, 3);
  const auto& instructions = programs->at(1).instructions;
  EXPECT_TRUE(std::any_of(instructions.begin(), instructions.end(),
                          [](const RowInstruction& i) { return i.op == Op::expm1 && i.level == RowLevel::uniform; }));
}

TEST_F(RowPrograms, every_primitive_but_contractions_and_gathers_fits) {
  const Value x = tensor({3, 8});
  for (const Op op : kAllOps) {
    if (op_class(op) != OpClass::elementwise || op == Op::cast || op == Op::where || op == Op::iota) continue;
    std::vector<Value> operands(static_cast<std::size_t>(input_count(op)), x);
    if (op == Op::join_halves) operands = {tensor({3, 8}, DType::bf16), tensor({3, 8}, DType::low_half)};
    EXPECT_TRUE(lower(graph_.node(make_node(graph_, op, operands)).outputs[0])) << name(op);
  }
  EXPECT_TRUE(lower(cast(graph_, x, DType::bf16)));
  EXPECT_TRUE(lower(where(graph_, less(graph_, x, x), x, x)));
  EXPECT_TRUE(lower(iota(graph_, {3, 8}, 0, DType::int64)));
  EXPECT_FALSE(lower(matmul(graph_, x, tensor({8, 3}))));
  EXPECT_FALSE(lower(embedding(graph_, x, tensor({2}, DType::int64))));
}

TEST_F(RowPrograms, does_not_take_a_matrix_with_its_own_transpose) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {4, 4}}, Role::data);
  body.add_output("0", add(body, x, transpose(body, x, {1, 0})));
  EXPECT_FALSE(lower_body(body));
}

TEST_F(RowPrograms, takes_a_transpose_within) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {4, 50}}, Role::data);
  const Value y = input(body, "1", {DType::fp32, {50, 4}}, Role::data);
  body.add_output("0", add(body, transpose(body, x, {1, 0}), y));
  EXPECT_EQ(first_line(lower_body(body)->at(0)), "space kept [4] summed [] columns 50 phases 1");
}

TEST_F(RowPrograms, does_not_take_reductions_that_feed_work_over_different_axes) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {4, 5}}, Role::data);
  const Value by_row = sub(body, x, reduce_max(body, x, {1}, true));
  body.add_output("0", sub(body, by_row, reduce_max(body, by_row, {0}, true)));
  EXPECT_FALSE(lower_body(body));
}

TEST_F(RowPrograms, takes_the_same_sum_over_rows_after_a_sum_over_columns) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {4, 5}}, Role::data);
  const Value e = exp(body, sub(body, x, reduce_max(body, x, {1}, true)));
  body.add_output("0", reduce_sum(body, reduce_sum(body, e, {1}), {0}));
  const RowProgram program = lower_body(body)->at(0);
  EXPECT_EQ(first_line(program), "space kept [] summed [4] columns 5 phases 2");
  EXPECT_EQ(program.outputs[0].store, RowStore::accumulate_rows);
}

TEST_F(RowPrograms, a_reshape_splits_a_dimension_into_axes) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {40, 48}}, Role::data);
  body.add_output("0", reduce_sum(body, reshape(body, x, {40, 2, 24}), {1}));
  EXPECT_EQ(print(lower_body(body)->at(0)),
            "space kept [40] summed [2] columns 24 phases 1\n"
            "%0 column.0 = load 0 fp32[48,24|1]\n"
            "output 0 accumulate_columns = %0 reduce_sum fp32[24,0|1]\n");
}

// x / max|block| of blocks of 32 along the last dimension, stored in the shape of x.
TEST_F(RowPrograms, work_over_blocks_of_a_dimension_is_rows_of_a_block) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {3, 128}}, Role::data);
  const Value blocks = reshape(body, x, {3, 4, 32});
  const Value largest = reduce_max(body, blocks, {-1}, true);
  body.add_output("0", reshape(body, div(body, blocks, largest), {3, 128}));
  body.add_output("1", reshape(body, largest, {3, 4}));
  EXPECT_EQ(print(lower_body(body)->at(0)),
            "space kept [12] summed [] columns 32 phases 2\n"
            "%0 column.0 = load 0 fp32[32|1]\n"
            "%1 row.0 = reduce_max %0\n"
            "%2 column.1 = div %0 %1\n"
            "output 0 element = %2 fp32[32|1]\n"
            "output 1 row = %1 fp32[1|0]\n");
}

TEST_F(RowPrograms, an_update_with_codes_of_moments_is_one_program_of_blocks) {
  const Shape shape{6, 1024};
  const Shape scales{6, 4};
  const NodeId node =
      make_node(graph_, Op::adamw_8bit,
                {tensor({}), tensor(shape), tensor(shape), tensor(shape, DType::dynamic8), tensor(scales),
                 tensor(shape, DType::udynamic8), tensor(scales)},
                {{"learning_rate", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.01}});
  const Programs programs = lower(graph_.node(node).outputs[0]);
  ASSERT_EQ(programs->size(), 1u);
  EXPECT_EQ(first_line(programs->at(0)), "space kept [24] summed [] columns 256 phases 2");
}

TEST_F(RowPrograms, an_operand_in_the_merged_shape_is_split_as_well) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {3, 128}}, Role::data);
  const Value factor = input(body, "1", {DType::fp32, {4, 1}}, Role::data);
  const Value y = input(body, "2", {DType::fp32, {128}}, Role::data);
  const Value scaled = mul(body, reshape(body, x, {3, 4, 32}), factor);
  body.add_output("0", add(body, reshape(body, scaled, {3, 128}), y));
  const RowProgram program = lower_body(body)->at(0);
  EXPECT_EQ(first_line(program), "space kept [3,4] summed [] columns 32 phases 1");
  const std::string text = print(program);
  EXPECT_NE(text.find("load 2 fp32[0,32|1]"), std::string::npos) << text;
}

TEST_F(RowPrograms, an_index_counts_through_the_parts_of_its_dimension) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {4, 1}}, Role::data);
  const Value index = iota(body, {128}, 0, DType::fp32);
  body.add_output("0", mul(body, reshape(body, index, {4, 32}), x));
  const std::string text = print(lower_body(body)->at(0));
  EXPECT_NE(text.find("iota fp32[32|1]"), std::string::npos) << text;
}

TEST_F(RowPrograms, a_part_may_be_split_again) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {48}}, Role::data);
  const Value y = input(body, "1", {DType::fp32, {2, 1, 1}}, Role::data);
  const Value split = reshape(body, reshape(body, x, {2, 24}), {2, 3, 8});
  body.add_output("0", reshape(body, mul(body, split, y), {48}));
  EXPECT_EQ(first_line(lower_body(body)->at(0)), "space kept [2] summed [] columns 24 phases 1");
}

TEST_F(RowPrograms, does_not_take_two_different_splits_of_a_dimension) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {48}}, Role::data);
  const Value y = input(body, "1", {DType::fp32, {2, 1}}, Role::data);
  const Value halves = mul(body, reshape(body, x, {2, 24}), y);
  body.add_output("0", neg(body, reshape(body, reshape(body, halves, {48}), {3, 16})));
  EXPECT_FALSE(lower_body(body));
}

TEST_F(RowPrograms, does_not_take_a_reshape_that_regroups_dimensions) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {6, 4}}, Role::data);
  body.add_output("0", neg(body, reshape(body, x, {8, 3})));
  EXPECT_FALSE(lower_body(body));
}

TEST_F(RowPrograms, does_not_take_a_dimension_beside_its_own_part) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {16}}, Role::data);
  const Value split = reshape(body, x, {4, 4});
  body.add_output("0", add(body, split, transpose(body, split, {1, 0})));
  EXPECT_FALSE(lower_body(body));
}

// x [64,2,3,2,3] times factors of its quarters of 64 and of some of the others: eight axes that do not merge.
TEST_F(RowPrograms, does_not_take_more_axes_than_a_space_has) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {64, 2, 3, 2, 3}}, Role::data);
  const Value y = input(body, "1", {DType::fp32, {4, 1, 4, 1}}, Role::data);
  const Value z = input(body, "2", {DType::fp32, {2, 1, 2, 1}}, Role::data);
  const Value blocks = mul(body, reshape(body, x, {4, 4, 4, 36}), y);
  body.add_output("0", mul(body, reshape(body, blocks, {64, 2, 3, 2, 3}), z));
  EXPECT_FALSE(lower_body(body));
}

TEST_F(RowPrograms, a_reshape_without_elements_takes_no_split) {
  Graph body;
  const Value x = input(body, "0", {DType::fp32, {0, 6}}, Role::data);
  body.add_output("0", neg(body, reshape(body, x, {0, 2, 3})));
  EXPECT_TRUE(lower_body(body));
  Graph none;
  const Value y = input(none, "0", {DType::fp32, {0, 6}}, Role::data);
  none.add_output("0", neg(none, reshape(none, y, {0})));
  EXPECT_FALSE(lower_body(none));
}

}  // namespace
}  // namespace ridgepoint
