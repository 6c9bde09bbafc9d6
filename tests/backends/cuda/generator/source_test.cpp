// Tests which variant the generator chooses, and the generated code.

#include "backends/cuda/generator/kernel.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "backends/cuda/needs.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using cuda::GeneratedNode;

constexpr int kSourceMultiprocessors = 132;
constexpr int kPtxOfHopper = 91;  // unknown architecture: the compiler makes PTX of the newest older one

// An operand as a view of a dense tensor.
struct ViewedOperand {
  TensorType type;
  std::function<Value(Graph&, Value)> view = nullptr;
};

ViewedOperand fp32(Shape shape) { return {{DType::fp32, shape}}; }

std::shared_ptr<const GeneratedNode> generate(Op op, const std::vector<ViewedOperand>& operands,
                                              const Attributes& attributes = {}) {
  Graph graph;
  std::vector<Value> values;
  for (const ViewedOperand& operand : operands) {
    const Value stored = input(graph, std::to_string(values.size()), operand.type, Role::data);
    values.push_back(operand.view ? operand.view(graph, stored) : stored);
  }
  const Node& node = graph.node(make_node(graph, op, values, attributes));
  const std::vector<ValueLayout> layouts = value_layouts(graph);
  std::vector<TensorLayout> inputs;
  std::vector<TensorLayout> outputs;
  for (const Value value : node.inputs) inputs.push_back(layouts[value.id].layout);
  for (const Value value : node.outputs) outputs.push_back(layouts[value.id].layout);
  return cuda::generate_node({graph, node, inputs, outputs}, 90, kSourceMultiprocessors);
}

std::vector<std::string> entries(const GeneratedNode& node) {
  std::vector<std::string> list;
  for (const cuda::GeneratedSource& source : node.sources) {
    for (const cuda::GeneratedLaunch& launch : source.launches) list.push_back(launch.entry);
  }
  return list;
}

std::string ptx(const GeneratedNode& node) {
  return cuda::nvrtc().compile(node.sources[0].text, "test", kPtxOfHopper, {"--minimal"}).bytes;
}

Attributes reduced_over(std::vector<std::int64_t> axes) { return {{"axes", std::move(axes)}, {"keep_dims", false}}; }

using Entries = std::vector<std::string>;
using GeneratedPtx = testing::WithNvrtc<>;

TEST_F(GeneratedPtx, dense_work_of_any_rank_is_one_space_of_16_byte_accesses) {
  const auto node = generate(Op::add, {fp32({4, 12, 256, 256}), fp32({4, 12, 256, 256})});
  EXPECT_EQ(entries(*node), Entries{"add_vector"});
  EXPECT_THAT(node->sources[0].text, Not(HasSubstr("const Count group")));
  for (const cuda::GeneratedParameter& parameter : node->sources[0].launches[0].parameters) {
    EXPECT_EQ(parameter.alignment_bytes, 16U);
  }
  const std::string code = ptx(*node);
  EXPECT_THAT(code, HasSubstr("ld.global.v4"));
  EXPECT_THAT(code, HasSubstr("st.global.v4"));
  EXPECT_THAT(code, Not(HasSubstr("ld.global.f32")));
}

TEST_F(GeneratedPtx, sixteen_bit_floats_move_in_16_byte_accesses) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const std::string code = ptx(*generate(Op::exp, {{{dtype, {1024, 1024}}}}));
    EXPECT_THAT(code, HasSubstr("ld.global.v4.u32"));
    EXPECT_THAT(code, HasSubstr("st.global.v4.u32"));
    EXPECT_THAT(code, Not(HasSubstr("ld.global.u16")));
  }
}

TEST_F(GeneratedPtx, several_sums_of_a_node_have_entries_of_their_own) {
  const auto node = generate(Op::layer_norm_backward,
                             {fp32({4096, 64}), fp32({4096, 64}), fp32({64}), fp32({4096, 1}), fp32({4096, 1})});
  Entries sorted = entries(*node);
  std::ranges::sort(sorted);
  EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end()) << ::testing::PrintToString(sorted);
  EXPECT_GT(sorted.size(), 2U);
  EXPECT_THAT(ptx(*node), HasSubstr(sorted.back()));
}

TEST(GeneratedSource, a_single_odd_row_ends_in_a_part_of_a_vector) {
  const auto node = generate(Op::exp, {fp32({100003})});
  EXPECT_EQ(entries(*node), Entries{"exp_vector"});
  EXPECT_THAT(node->sources[0].text, HasSubstr("load_first<4, 3>"));
}

TEST(GeneratedSource, rows_that_vectors_do_not_divide_move_by_element) {
  EXPECT_EQ(entries(*generate(Op::add, {fp32({64, 33}), fp32({33})})), Entries{"add_element"});
  EXPECT_EQ(entries(*generate(Op::add, {fp32({64, 36}), fp32({36})})), Entries{"add_vector"});
}

TEST(GeneratedSource, misaligned_operands_have_a_version_by_element) {
  const auto node = generate(Op::exp, {fp32({4096})});
  ASSERT_EQ(node->scalar.size(), 1U);
  EXPECT_EQ(node->scalar[0].launches[0].entry, "exp_element");
  EXPECT_EQ(node->scalar[0].launches[0].parameters[0].alignment_bytes, 4U);
}

// A donated operand shares memory with a result.
TEST(GeneratedSource, loads_stand_before_the_first_store_and_no_pointer_is_restrict) {
  const auto node =
      generate(Op::adamw, {fp32({}), fp32({4096}), fp32({4096}), fp32({4096}), fp32({4096})},
               {{"learning_rate", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.01}});
  const std::string& text = node->sources[0].text;
  const std::string body = text.substr(text.find("adamw_vector"));
  EXPECT_LT(body.rfind(" = load<"), body.find("store("));
  EXPECT_THAT(text, Not(HasSubstr("restrict")));
}

TEST(GeneratedSource, rows_belong_to_warps_then_blocks_then_are_swept_piece_by_piece) {
  EXPECT_EQ(entries(*generate(Op::softmax, {fp32({4096, 256})})), Entries{"softmax_warp_row"});
  EXPECT_EQ(entries(*generate(Op::softmax, {fp32({4096, 1024})})), Entries{"softmax_warp_row"});
  EXPECT_EQ(entries(*generate(Op::softmax, {fp32({4096, 10000})})), Entries{"softmax_block_row"});
  EXPECT_EQ(entries(*generate(Op::softmax, {fp32({64, 200000})})), Entries{"softmax_looped_row"});
}

// The row is read once and written once: it stays in registers between its three sweeps.
TEST(GeneratedSource, a_row_in_registers_is_loaded_once) {
  for (const Shape& shape : {Shape{4096, 512}, Shape{1024, 10000}}) {
    const std::string text = generate(Op::softmax, {fp32(shape)})->sources[0].text;
    const std::size_t first = text.find(" = load<");
    EXPECT_NE(first, std::string::npos);
    EXPECT_EQ(text.find(" = load<", first + 1), std::string::npos) << text;
  }
}

TEST(GeneratedSource, few_blocks_of_a_multiprocessor_prefetch_the_rows_of_the_next) {
  const auto prefetches = [](std::int64_t rows, std::int64_t columns) {
    const std::string text = generate(Op::softmax, {fp32({rows, columns})})->sources[0].text;
    return text.find("prefetch(", text.find("void __launch_bounds__")) != std::string::npos;
  };
  EXPECT_TRUE(prefetches(4096, 28000));
  EXPECT_FALSE(prefetches(4096, 5000)) << "several blocks are on a multiprocessor";
  EXPECT_FALSE(prefetches(132, 28000)) << "each multiprocessor has one block";
}

TEST(GeneratedSource, very_short_rows_share_a_warp) {
  const auto node = generate(Op::softmax, {fp32({100000, 8})});
  EXPECT_EQ(entries(*node), Entries{"softmax_warp_row"});
  EXPECT_THAT(node->sources[0].text, HasSubstr("across_lanes<Sum, 1>"));
  const cuda::GeneratedLaunch& launch = node->sources[0].launches[0];
  EXPECT_LT(launch.grid * launch.block, 2U * 100000U);
}

TEST(GeneratedSource, a_few_long_rows_are_split_over_many_blocks) {
  const auto node = generate(Op::reduce_sum, {fp32({1 << 24})}, reduced_over({0}));
  EXPECT_EQ(entries(*node).front(), "reduce_sum_split_row");
  EXPECT_EQ(entries(*node).size(), 2U);
  EXPECT_GE(node->sources[0].launches[0].grid, unsigned{kSourceMultiprocessors});
  EXPECT_GE(node->workspace_bytes, node->sources[0].launches[0].grid * sizeof(float));
}

TEST(GeneratedSource, sums_of_columns_are_shared_by_blocks_and_combined_in_a_second_launch) {
  const auto node = generate(Op::reduce_sum, {fp32({8192, 768})}, reduced_over({0}));
  EXPECT_EQ(entries(*node), (Entries{"reduce_sum_column_shares", "reduce_sum_column_tiles"}));
  EXPECT_GE(node->sources[0].launches[0].grid, unsigned{2 * kSourceMultiprocessors});
}

TEST(GeneratedSource, wide_sums_of_columns_need_one_launch) {
  EXPECT_EQ(entries(*generate(Op::reduce_sum, {fp32({64, 1 << 20})}, reduced_over({0}))),
            Entries{"reduce_sum_columns"});
}

TEST(GeneratedSource, a_gradient_and_the_sums_beside_it_read_their_operands_once) {
  const auto node =
      generate(Op::rms_norm_backward, {fp32({8192, 768}), fp32({8192, 768}), fp32({768}), fp32({8192, 1})});
  EXPECT_EQ(entries(*node), (Entries{"rms_norm_backward_warp_row_sums", "rms_norm_backward_column_tiles"}));
}

TEST(GeneratedSource, no_kernel_adds_floats_in_an_order_that_may_change) {
  for (const auto& node : {generate(Op::reduce_sum, {fp32({8192, 768})}, reduced_over({0})),
                           generate(Op::reduce_sum, {fp32({1 << 24})}, reduced_over({0}))}) {
    EXPECT_THAT(node->sources[0].text, Not(HasSubstr("atomic")));
  }
}

TEST(GeneratedSource, a_transposing_copy_passes_through_shared_memory) {
  const auto transposed = [](Graph& graph, Value x) { return transpose(graph, x, {1, 0}); };
  const auto node = generate(Op::copy, {{{DType::fp32, {512, 768}}, transposed}});
  EXPECT_EQ(entries(*node), Entries{"copy_tiled"});
  EXPECT_THAT(node->sources[0].text, HasSubstr("__shared__ float t0[32][33]"));
}

TEST(GeneratedSource, moving_heads_beside_each_other_keeps_16_byte_accesses) {
  const auto by_token = [](Graph& graph, Value x) { return transpose(graph, x, {0, 2, 1, 3}); };
  EXPECT_EQ(entries(*generate(Op::copy, {{{DType::fp32, {4, 12, 256, 64}}, by_token}})), Entries{"copy_vector"});
}

TEST(GeneratedSource, offsets_are_64_bit_only_where_they_must_be) {
  EXPECT_THAT(generate(Op::exp, {fp32({1 << 20})})->sources[0].text, HasSubstr("using Index = int;"));
  EXPECT_THAT(generate(Op::exp, {fp32({3, 1 << 30})})->sources[0].text, HasSubstr("using Index = long long;"));
}

TEST(GeneratedSource, results_without_elements_need_no_launch) {
  EXPECT_TRUE(entries(*generate(Op::exp, {fp32({0, 5})})).empty());
  EXPECT_TRUE(entries(*generate(Op::softmax, {fp32({0, 5})})).empty());
}

TEST(GeneratedSource, reductions_of_nothing_still_write_their_identity) {
  EXPECT_EQ(entries(*generate(Op::reduce_sum, {fp32({3, 0})}, reduced_over({1}))).size(), 1U);
  EXPECT_EQ(entries(*generate(Op::reduce_sum, {fp32({0, 3})}, reduced_over({0}))).size(), 1U);
}

TEST(GeneratedNode, is_shared_by_nodes_that_differ_in_name_only) {
  const auto first = generate(Op::exp, {fp32({64, 64})});
  EXPECT_EQ(first, generate(Op::exp, {fp32({64, 64})}));
  EXPECT_NE(first, generate(Op::exp, {fp32({64, 65})}));
  EXPECT_NE(first, generate(Op::log, {fp32({64, 64})}));
}

TEST(GeneratedNode, differs_by_attributes_and_immediates) {
  const auto mask = [](double fill) { return generate(Op::causal_mask, {fp32({64, 64})}, {{"fill", fill}}); };
  EXPECT_NE(mask(0.0), mask(-1.0));
  const auto times = [](double factor) {
    return generate(
        Op::mul, {fp32({64}), {{DType::fp32, {}}, [=](Graph& g, Value) { return constant(g, factor, DType::fp32); }}});
  };
  EXPECT_NE(times(2.0), times(3.0));
}

TEST(GeneratedNode, refuses_what_is_no_row_program) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {4, 4}}, Role::data);
  const Node& node = graph.producer_node(matmul(graph, x, x));
  EXPECT_FALSE(cuda::fits_generated(graph, node));
  const TensorLayout layout = dense_layout(graph.type(x));
  const std::array inputs = {layout, layout};
  const std::array outputs = {layout};
  EXPECT_THROW(cuda::generate_node({graph, node, inputs, outputs}, 90, kSourceMultiprocessors), Error);
}

}  // namespace
}  // namespace ridgepoint
