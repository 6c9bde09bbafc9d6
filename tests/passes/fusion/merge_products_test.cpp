// Products with the same left operand become one, whose weights are stored side by side under their names.
#include <gtest/gtest.h>

#include <string>

#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

using testing::count;

TEST(MergeProducts, stores_the_weights_side_by_side) {
  expect_rewritten(merge_products, R"(
%0:fp32[T8,4] = input() {name="x", role="data"}
%1:fp32[12,4] = input() {name="attn.q.weight", role="parameter"}
%2:fp32[4,12] = transpose(%1) {permutation=[1,0]} @forward "attn.q" ""
%3:fp32[T8,12] = matmul(%0, %2) @forward "attn.q" ""
%4:fp32[8,4] = input() {name="attn.k.weight", role="parameter"}
%5:fp32[4,8] = transpose(%4) {permutation=[1,0]} @forward "attn.k" ""
%6:fp32[T8,8] = matmul(%0, %5) @forward "attn.k" ""
output "q" %3
output "k" %6
)",
                   R"(
%0:fp32[T8,4] = input() {name="x", role="data"}
%1:fp32[20,4] = input() {name="attn.q+k.weight", parts="attn.q.weight,attn.k.weight", role="parameter", rows=[12,8]} @forward "attn.q+k" ""
%2:fp32[4,20] = transpose(%1) {permutation=[1,0]} @forward "attn.q+k" ""
%3:fp32[T8,20] = matmul(%0, %2) @forward "attn.q+k" ""
%4:fp32[T8,12], %5:fp32[T8,8] = split(%3) {axis=1, sizes=[12,8]} @forward "attn.q+k" ""
output "q" %4
output "k" %5
)");
}

TEST(MergeProducts, casts_the_merged_weight) {
  expect_rewritten(merge_products, R"(
%0:bf16[8,4] = input() {name="x", role="data"}
%1:fp32[8,4] = input() {name="a", role="parameter"}
%2:bf16[8,4] = cast(%1) {dtype="bf16"}
%3:bf16[4,8] = transpose(%2) {permutation=[1,0]}
%4:bf16[8,8] = matmul(%0, %3)
%5:fp32[8,4] = input() {name="b", role="parameter"}
%6:bf16[8,4] = cast(%5) {dtype="bf16"}
%7:bf16[4,8] = transpose(%6) {permutation=[1,0]}
%8:bf16[8,8] = matmul(%0, %7)
output "p" %4
output "q" %8
)",
                   R"(
%0:bf16[8,4] = input() {name="x", role="data"}
%1:fp32[16,4] = input() {name="a+b", parts="a,b", role="parameter", rows=[8,8]}
%2:bf16[16,4] = cast(%1) {dtype="bf16"}
%3:bf16[4,16] = transpose(%2) {permutation=[1,0]}
%4:bf16[8,16] = matmul(%0, %3)
%5:bf16[8,8], %6:bf16[8,8] = split(%4) {axis=1, sizes=[8,8]}
output "p" %5
output "q" %6
)");
}

TEST(MergeProducts, takes_casts_of_one_value_as_the_same_operand) {
  expect_rewritten(merge_products, R"(
%0:fp32[8,4] = input() {name="x", role="data"}
%1:bf16[8,4] = cast(%0) {dtype="bf16"}
%2:bf16[8,4] = input() {name="a", role="parameter"}
%3:bf16[4,8] = transpose(%2) {permutation=[1,0]}
%4:bf16[8,8] = matmul(%1, %3)
%5:bf16[8,4] = cast(%0) {dtype="bf16"}
%6:bf16[16,4] = input() {name="b", role="parameter"}
%7:bf16[4,16] = transpose(%6) {permutation=[1,0]}
%8:bf16[8,16] = matmul(%5, %7)
output "p" %4
output "q" %8
)",
                   R"(
%0:fp32[8,4] = input() {name="x", role="data"}
%1:bf16[8,4] = cast(%0) {dtype="bf16"}
%2:bf16[24,4] = input() {name="a+b", parts="a,b", role="parameter", rows=[8,16]}
%3:bf16[4,24] = transpose(%2) {permutation=[1,0]}
%4:bf16[8,24] = matmul(%1, %3)
%5:bf16[8,8], %6:bf16[8,16] = split(%4) {axis=1, sizes=[8,16]}
output "p" %5
output "q" %6
)");
}

// Two products of heads with a bias each, which is cast.
const std::string kBiasedHeads = R"(
%0:bf16[T8,4] = input() {name="x", role="data"}
%1:bf16[16,4] = input() {name="q.weight", role="parameter"}
%2:bf16[4,16] = transpose(%1) {permutation=[1,0]} @forward "q" ""
%3:bf16[T8,16] = matmul(%0, %2) @forward "q" ""
%4:fp32[16] = input() {name="q.bias", no_decay=true, role="parameter"}
%5:bf16[16] = cast(%4) {dtype="bf16"} @forward "q" ""
%6:bf16[T8,16] = add(%3, %5) @forward "q" ""
%7:bf16[2,4,2,8] = reshape(%6) {shape=[2,4,2,8]}
%8:bf16[8,4] = input() {name="k.weight", role="parameter"}
%9:bf16[4,8] = transpose(%8) {permutation=[1,0]} @forward "k" ""
%10:bf16[T8,8] = matmul(%0, %9) @forward "k" ""
%11:fp32[8] = input() {name="k.bias", no_decay=true, role="parameter"}
%12:bf16[8] = cast(%11) {dtype="bf16"} @forward "k" ""
%13:bf16[T8,8] = add(%12, %10) @forward "k" ""
%14:bf16[2,4,1,8] = reshape(%13) {shape=[2,4,1,8]}
%15:bf16[2,4,8,1] = transpose(%14) {permutation=[0,1,3,2]}
%16:bf16[2,4,2,1] = matmul(%7, %15)
output "scores" %16
)";

TEST(MergeProducts, stores_the_biases_of_heads_side_by_side_too) {
  expect_rewritten(merge_products, kBiasedHeads, R"(
%0:bf16[T8,4] = input() {name="x", role="data"}
%1:bf16[24,4] = input() {name="q+k.weight", parts="q.weight,k.weight", role="parameter", rows=[16,8]} @forward "q+k" ""
%2:bf16[4,24] = transpose(%1) {permutation=[1,0]} @forward "q+k" ""
%3:bf16[T8,24] = matmul(%0, %2) @forward "q+k" ""
%4:fp32[24] = input() {name="q+k.bias", no_decay=true, parts="q.bias,k.bias", role="parameter", rows=[16,8]} @forward "q+k" ""
%5:bf16[24] = cast(%4) {dtype="bf16"} @forward "q+k" ""
%6:bf16[T8,24] = add(%3, %5) @forward "q+k" ""
%7:bf16[T8,16], %8:bf16[T8,8] = split(%6) {axis=1, sizes=[16,8]} @forward "q+k" ""
%9:bf16[2,4,2,8] = reshape(%7) {shape=[2,4,2,8]}
%10:bf16[2,4,1,8] = reshape(%8) {shape=[2,4,1,8]}
%11:bf16[2,4,8,1] = transpose(%10) {permutation=[0,1,3,2]}
%12:bf16[2,4,2,1] = matmul(%9, %11)
output "scores" %12
)");
}

// The products are merged, the biases are not.
void expect_biases_apart(const std::string& before, const PassTarget& target = testing::target_with_kernels()) {
  Graph graph = graph_of(before);
  testing::expect_changed(merge_products, graph, target);
  EXPECT_EQ(count(graph, Op::matmul), 2U) << "the scores are the second";
  EXPECT_EQ(count(graph, Op::add), 2U);
}

// Where the sum would stay whole for backward beside the rotated heads, biases are not worth it.
TEST(MergeProducts, stores_biases_before_a_rotation_side_by_side_where_the_target_rotates_in_the_product) {
  std::string rotated = testing::replaced(kBiasedHeads, "%8:", R"(%17:fp32[4,4] = input() {name="cosines", role="data"}
%18:fp32[4,4] = input() {name="sines", role="data"}
%19:bf16[2,4,2,8] = rope(%7, %17, %18) {axis=1, inverse=false}
%8:)");
  rotated = testing::replaced(rotated, "matmul(%7, %15)", "matmul(%19, %15)");
  Graph graph = graph_of(rotated);
  testing::expect_changed(merge_products, graph, testing::target_with_kernels(true));
  EXPECT_EQ(count(graph, Op::add), 1U);
  expect_biases_apart(rotated, testing::target_with_kernels(false));
  std::string in_fp8 = testing::replaced(rotated, "matmul(%0, %2)", "matmul(%0, %2) {compute=\"fp8\"}");
  in_fp8 = testing::replaced(in_fp8, "matmul(%0, %9)", "matmul(%0, %9) {compute=\"fp8\"}");
  expect_biases_apart(in_fp8);
}

TEST(MergeProducts, leaves_biases_of_which_one_is_absent_read_elsewhere_or_stored_otherwise) {
  expect_biases_apart(kBiasedHeads + "output \"sum\" %6\n");
  expect_biases_apart(kBiasedHeads + "output \"bias\" %4\n");
  expect_biases_apart(testing::replaced(kBiasedHeads, "name=\"q.bias\", no_decay=true", "name=\"q.bias\""));
  expect_biases_apart(testing::replaced(kBiasedHeads, "%15:", "%17:bf16[2,4,1,8] = exp(%14)\noutput \"e\" %17\n%15:"));
}

TEST(MergeProducts, leaves_products_of_different_operands) {
  expect_left(merge_products, R"(
%0:fp32[8,4] = input() {name="x", role="data"}
%1:fp32[8,4] = input() {name="y", role="data"}
%2:fp32[8,4] = input() {name="a", role="parameter"}
%3:fp32[4,8] = transpose(%2) {permutation=[1,0]}
%4:fp32[8,8] = matmul(%0, %3)
%5:fp32[8,4] = input() {name="b", role="parameter"}
%6:fp32[4,8] = transpose(%5) {permutation=[1,0]}
%7:fp32[8,8] = matmul(%1, %6)
output "p" %4
output "q" %7
)");
}

TEST(MergeProducts, leaves_a_weight_that_something_else_reads_or_updates) {
  expect_left(merge_products, R"(
%0:fp32[8,4] = input() {name="x", role="data"}
%1:fp32[8,4] = input() {name="a", role="parameter"}
%2:fp32[4,8] = transpose(%1) {permutation=[1,0]}
%3:fp32[8,8] = matmul(%0, %2)
%4:fp32[8,4] = input() {name="b", role="parameter"}
%5:fp32[4,8] = transpose(%4) {permutation=[1,0]}
%6:fp32[8,8] = matmul(%0, %5)
%7:fp32[8,4] = input() {name="c", role="parameter"}
%8:fp32[4,8] = transpose(%7) {permutation=[1,0]}
%9:fp32[8,8] = matmul(%0, %8)
%10:fp32[8,4] = exp(%1)
output "p" %3
output "q" %6
output "r" %9
output "e" %10
update %4 %10
)");
}

TEST(MergeProducts, leaves_parts_that_would_not_begin_at_whole_vectors) {
  expect_left(merge_products, R"(
%0:fp32[8,4] = input() {name="x", role="data"}
%1:fp32[3,4] = input() {name="a", role="parameter"}
%2:fp32[4,3] = transpose(%1) {permutation=[1,0]}
%3:fp32[8,3] = matmul(%0, %2)
%4:fp32[3,4] = input() {name="b", role="parameter"}
%5:fp32[4,3] = transpose(%4) {permutation=[1,0]}
%6:fp32[8,3] = matmul(%0, %5)
output "p" %3
output "q" %6
)");
}

TEST(MergeProducts, leaves_products_that_compute_in_other_types) {
  expect_left(merge_products, R"(
%0:fp32[8,4] = input() {name="x", role="data"}
%1:fp32[8,4] = input() {name="a", role="parameter"}
%2:fp32[4,8] = transpose(%1) {permutation=[1,0]}
%3:fp32[8,8] = matmul(%0, %2) {compute="tf32"}
%4:fp32[8,4] = input() {name="b", role="parameter"}
%5:fp32[4,8] = transpose(%4) {permutation=[1,0]}
%6:fp32[8,8] = matmul(%0, %5)
output "p" %3
output "q" %6
)");
}

TEST(MergeProducts, does_nothing_without_compilation) {
  Graph graph = build_transformer(transformer_preset("tiny"), 1);
  EXPECT_FALSE(merge_products(graph, PassOptions()));
}

struct Configuration {
  Mode mode;
  Precision precision;
};

struct MergedProducts : ::testing::TestWithParam<Configuration> {
  static TransformerConfig config() {
    TransformerConfig config = transformer_preset("tiny");
    config.layers = 2;
    config.context = 24;
    config.vocab = 50;
    return config;
  }
  static Program program(const char* device, Compile level) {
    return {build_transformer(config(), 2),
            open_device(device),
            {.compile = {.mode = GetParam().mode,
                         .precision = GetParam().precision,
                         .level = level,
                         .keep = {.results = true, .gradients = true}}}};
  }
};

// 7 products a layer become 4: [q, k, v], output, [w1, w3] and w2. Attention is one op.
TEST_P(MergedProducts, are_fewer) {
  const std::size_t forward = 2 * 4 + 1;
  EXPECT_EQ(count(program("cpu", Compile::fuse).graph(), Op::matmul),
            GetParam().mode == Mode::forward ? forward : 3 * forward);
}

TEST_P(MergedProducts, keep_the_names_and_the_values_of_parameters_gradients_and_moments) {
  const Transformer workload(config(), 2);
  Program eager = program("cpu", Compile::off);
  Program compiled = program("cpu", Compile::fuse);
  initialise(eager, workload, 3);
  initialise(compiled, workload, 3);
  for (int run = 0; run < 2; ++run) {
    eager.run();
    compiled.run();
  }
  const double tolerance = GetParam().precision == Precision::fp32 ? 1e-5 : 0.05;
  EXPECT_EQ(eager.graph().outputs().size(), compiled.graph().outputs().size());
  for (const Output& output : eager.graph().outputs()) {
    EXPECT_LT(testing::relative_error(compiled.read_output(output.name), eager.read_output(output.name)), tolerance)
        << output.name;
  }
  for (const NodeId id : eager.graph().inputs()) {
    const std::string& input = input_name(eager.graph().node(id));
    const HostTensor found = compiled.read_input(input);
    const HostTensor expected = eager.read_input(input);
    EXPECT_EQ(found.type, expected.type) << input;
    EXPECT_LT(testing::relative_error(found, expected), tolerance) << input;
  }
}

INSTANTIATE_TEST_SUITE_P(
    all, MergedProducts,
    ::testing::Values(Configuration{Mode::forward, Precision::fp32},
                      Configuration{Mode::forward_backward, Precision::fp32},
                      Configuration{Mode::step, Precision::fp32}, Configuration{Mode::forward, Precision::bf16},
                      Configuration{Mode::step, Precision::bf16}, Configuration{Mode::step, Precision::fp16}),
    [](const auto& tested) {
      return std::string(name(tested.param.mode)) + "_" + std::string(name(tested.param.precision));
    });

TEST(StoredTensors, that_do_not_fill_their_input_are_refused) {
  EXPECT_THROW(graph_of(R"(
%0:fp32[4,4] = input() {name="w", parts="a,b", role="parameter", rows=[2,3]}
output "o" %0
)"),
               Error);
  EXPECT_THROW(graph_of(R"(
%0:fp32[4,4] = input() {name="w", parts="a,b,c", role="parameter", rows=[2,2]}
output "o" %0
)"),
               Error);
  EXPECT_THROW(graph_of(R"(
%0:fp32[4,4] = input() {name="w", parts="a,a", role="parameter", rows=[2,2]}
output "o" %0
)"),
               Error);
}

}  // namespace
}  // namespace ridgepoint
