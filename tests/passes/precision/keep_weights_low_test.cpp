// Weights that are stored as the products read them, and AdamW reading low gradients.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using testing::count;

TEST(KeepWeightsLow, stores_a_weight_that_is_only_read_in_the_low_type) {
  expect_rewritten(keep_weights_low, R"(
%0:fp32[4,4] = input() {name="w", role="parameter"}
%1:bf16[4,4] = cast(%0) {dtype="bf16"}
%2:bf16[4,4] = matmul(%1, %1)
output "o" %2
)",
                   R"(
%0:bf16[4,4] = input() {declared_dtype="fp32", name="w", role="parameter"}
%1:bf16[4,4] = matmul(%0, %0)
output "o" %1
)");
}

TEST(KeepWeightsLow, leaves_a_weight_that_is_read_in_fp32_too) {
  expect_left(keep_weights_low, R"(
%0:fp32[4,4] = input() {name="w", role="parameter"}
%1:bf16[4,4] = cast(%0) {dtype="bf16"}
%2:bf16[4,4] = matmul(%1, %1)
%3:fp32[4,4] = exp(%0)
output "o" %2
output "p" %3
)");
}

TEST(KeepWeightsLow, leaves_data_and_casts_to_a_wider_type) {
  expect_left(keep_weights_low, R"(
%0:fp32[4,4] = input() {name="x", role="data"}
%1:bf16[4,4] = cast(%0) {dtype="bf16"}
%2:bf16[4,4] = input() {name="w", role="parameter"}
%3:fp32[4,4] = cast(%2) {dtype="fp32"}
output "o" %1
output "p" %3
)");
}

// A step of AdamW over a weight that a product reads in `low`, and `more`.
std::string step_over(const std::string& low, const std::string& more = "") {
  return R"(
%0:fp32[2,2] = input() {name="w", role="parameter"}
%1:fp32[2,2] = input() {name="m", role="state"}
%2:fp32[2,2] = input() {name="v", role="state"}
%3:fp32[] = input() {name="step", role="state"}
%4:fp32[2,2] = input() {name="g", role="data"}
%5:)" + low +
         "[2,2] = cast(%0) {dtype=\"" + low + "\"}\n%6:" + low + R"([2,2] = matmul(%5, %5)
%7:fp32[2,2], %8:fp32[2,2], %9:fp32[2,2] = adamw(%3, %0, %4, %1, %2) {beta1=0.5, beta2=0.5, epsilon=0.5, learning_rate=0.5, weight_decay=0.5}
output "o" %6
)" + more +
         R"(update %0 %7
update %1 %8
update %2 %9
)";
}

std::string step_with_copy(const std::string& low, const std::string& more = "") {
  return "\n%0:" + low + R"([2,2] = input() {copy_of="w", name="low.w", role="state"}
%1:fp32[2,2] = input() {name="w", role="parameter"}
%2:fp32[2,2] = input() {name="m", role="state"}
%3:fp32[2,2] = input() {name="v", role="state"}
%4:fp32[] = input() {name="step", role="state"}
%5:fp32[2,2] = input() {name="g", role="data"}
%6:)" + low +
         R"([2,2] = matmul(%0, %0)
%7:fp32[2,2], %8:fp32[2,2], %9:fp32[2,2], %10:)" +
         low + "[2,2] = adamw(%4, %1, %5, %2, %3) {beta1=0.5, beta2=0.5, copy=\"" + low +
         R"(", epsilon=0.5, learning_rate=0.5, weight_decay=0.5}
output "o" %6
)" + more +
         R"(update %1 %7
update %2 %8
update %3 %9
update %0 %10
)";
}

TEST(KeepWeightsLow, stores_a_weight_that_adamw_updates_in_two_halves) {
  expect_rewritten(keep_weights_low, step_over("bf16"), R"(
%0:low_half[2,2] = input() {low_half_of="w", name="rest.w", role="state"}
%1:bf16[2,2] = input() {declared_dtype="fp32", name="w", role="parameter"}
%2:fp32[2,2] = input() {name="m", role="state"}
%3:fp32[2,2] = input() {name="v", role="state"}
%4:fp32[] = input() {name="step", role="state"}
%5:fp32[2,2] = input() {name="g", role="data"}
%6:bf16[2,2] = matmul(%1, %1)
%7:bf16[2,2], %8:fp32[2,2], %9:fp32[2,2], %10:low_half[2,2] = adamw(%4, %1, %5, %2, %3, %0) {beta1=0.5, beta2=0.5, epsilon=0.5, learning_rate=0.5, split=true, weight_decay=0.5}
output "o" %6
update %1 %7
update %2 %8
update %3 %9
update %0 %10
)");
}

TEST(KeepWeightsLow, lets_adamw_write_a_copy_in_fp16_and_where_the_weight_is_read_in_fp32) {
  expect_rewritten(keep_weights_low, step_over("fp16"), step_with_copy("fp16"));
  expect_rewritten(keep_weights_low, step_over("bf16", "output \"w\" %0\n"),
                   step_with_copy("bf16", "output \"w\" %1\n"));
  expect_rewritten(keep_weights_low, step_over("bf16", "output \"new\" %7\n"),
                   step_with_copy("bf16", "output \"new\" %7\n"));
}

void keep_frozen_low_in_bf16(Graph& graph) {
  keep_frozen_low(graph, PassOptions(CompileOptions{.precision = Precision::bf16}));
}

// Its casts go, whether they read the parameter or a view of it; rows that are looked up are cast behind.
TEST(KeepFrozenLow, stores_a_frozen_parameter_that_is_read_in_the_low_type) {
  Graph graph = testing::graph_of(R"(
%0:fp32[4,4] = input() {frozen=true, name="w", role="parameter"}
%1:int64[3] = input() {name="i", role="data"}
%2:bf16[4,4] = cast(%0) {dtype="bf16"}
%3:fp32[2,4], %4:fp32[2,4] = split(%0) {axis=0, sizes=[2,2]}
%5:bf16[2,4] = cast(%4) {dtype="bf16"}
%6:fp32[3,4] = embedding(%0, %1)
output "a" %2
output "b" %5
output "c" %6
)");
  keep_frozen_low_in_bf16(graph);
  EXPECT_EQ(testing::lines_of(std::move(graph)), R"(
%0:bf16[4,4] = input() {declared_dtype="fp32", frozen=true, name="w", role="parameter"}
%1:int64[3] = input() {name="i", role="data"}
%2:bf16[2,4], %3:bf16[2,4] = split(%0) {axis=0, sizes=[2,2]}
%4:bf16[3,4] = embedding(%0, %1)
%5:fp32[3,4] = cast(%4) {dtype="fp32"}
output "a" %0
output "b" %3
output "c" %5
)");
}

TEST(KeepFrozenLow, leaves_parameters_that_train_or_are_read_in_fp32) {
  for (const std::string attribute : {"", "frozen=true, "}) {
    const std::string lines = R"(
%0:fp32[4] = input() {)" + attribute +
                              R"(name="w", role="parameter"}
%1:bf16[4] = cast(%0) {dtype="bf16"}
)" + (attribute.empty() ? "" : "%2:fp32[4] = exp(%0)\noutput \"p\" %2\n") +
                              "output \"o\" %1\n";
    Graph graph = testing::graph_of(lines);
    const std::string before = testing::lines_of(testing::graph_of(lines));
    keep_frozen_low_in_bf16(graph);
    EXPECT_EQ(testing::lines_of(std::move(graph)), before);
  }
}

// In bf16 numbers, which storing does not round, a step computes the same to the bit with its frozen parameters in
// fp32.
TEST(KeepFrozenLow, changes_no_result_where_the_values_are_in_the_low_type) {
  TransformerConfig config = transformer_preset("tiny");
  config.layers = 1;
  config.context = 16;
  const Transformer workload(config, 2);
  const auto run = [&](Compile level, std::vector<std::string> skip) {
    Program program(workload.build(), open_device("cpu"),
                    {.compile = {.mode = Mode::step,
                                 .precision = Precision::bf16,
                                 .level = level,
                                 .keep = {.results = true},
                                 .frozen = {"token_embeddings", "layers.0.ffn", "lm_head"},
                                 .skip = std::move(skip)}});
    initialise(program, workload, 3);
    for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
      const HostTensor value = workload.initial_value(parameter, 3);
      program.write_input(parameter.name, convert(convert(value, DType::bf16), DType::fp32));
    }
    program.run();
    program.run();
    const Graph& graph = program.graph();
    return std::pair(program.read_output("logits"), graph.type(*graph.find_input("lm_head.weight")).dtype);
  };
  for (const Compile level : {Compile::off, Compile::full}) {
    const auto [low, low_dtype] = run(level, {});
    const auto [wide, wide_dtype] = run(level, {"keep_frozen_low"});
    EXPECT_EQ(low_dtype, DType::bf16);
    if (level == Compile::off) {
      EXPECT_EQ(wide_dtype, DType::fp32);
    }
    EXPECT_EQ(testing::relative_error(low, wide), 0) << name(level);
  }
}

TEST(KeepGradientsLow, lets_adamw_and_the_search_for_infinities_read_what_was_cast) {
  expect_rewritten(keep_gradients_low, R"(
 %0:fp32[2,2] = input() {name="w", role="parameter"}
 %1:fp32[] = input() {name="step", role="state"}
 %2:fp16[2,2] = input() {name="g", role="data"}
-%3:fp32[2,2] = cast(%2) {dtype="fp32"}
-%4:fp32[] = nonfinite(%3)
-%5:fp32[2,2], %6:fp32[2,2], %7:fp32[2,2] = adamw(%1, %0, %3, %0, %0) {beta1=0.5, beta2=0.5, epsilon=0.5, learning_rate=0.5, weight_decay=0.5}
+%4:fp32[] = nonfinite(%2)
+%5:fp32[2,2], %6:fp32[2,2], %7:fp32[2,2] = adamw(%1, %0, %2, %0, %0) {beta1=0.5, beta2=0.5, epsilon=0.5, learning_rate=0.5, weight_decay=0.5}
 output "o" %4
 output "w" %5
)");
}

TEST(KeepGradientsLow, leaves_casts_that_round_and_other_operands) {
  expect_left(keep_gradients_low, R"(
%0:fp32[2,2] = input() {name="w", role="parameter"}
%1:fp32[] = input() {name="step", role="state"}
%2:bf16[2,2] = input() {name="m", role="state"}
%3:fp32[2,2] = cast(%2) {dtype="fp32"}
%4:fp32[2,2], %5:fp32[2,2], %6:fp32[2,2] = adamw(%1, %0, %0, %3, %0) {beta1=0.5, beta2=0.5, epsilon=0.5, learning_rate=0.5, weight_decay=0.5}
output "w" %4
)");
}

struct LowWeights : ::testing::TestWithParam<Mode> {
  Program program(Compile level) const {
    TransformerConfig config = transformer_preset("tiny");
    config.layers = 1;
    config.context = 16;
    return {build_transformer(config, 2),
            open_device("cpu"),
            {.compile = {.mode = GetParam(), .precision = Precision::bf16, .level = level, .keep = {.results = true}}}};
  }
};

TEST_P(LowWeights, compute_what_cast_weights_do_at_every_step) {
  Program eager = program(Compile::off);
  Program compiled = program(Compile::fuse);
  EXPECT_LT(count(compiled.graph(), Op::cast), count(eager.graph(), Op::cast));
  for (const NodeId id : eager.graph().inputs()) {
    const Node& node = eager.graph().node(id);
    if (input_role(node) == Role::state) continue;
    const TensorType& type = eager.graph().type(node.outputs[0]);
    HostTensor tensor(type);
    if (type.dtype == DType::fp32)
      for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
        tensor.as<float>()[i] = static_cast<float>(static_cast<int>((i * 7919) % 101) - 50) * 0.004F;
    eager.write_input(input_name(node), tensor);
    compiled.write_input(input_name(node), tensor);
  }
  for (int run = 0; run < 3; ++run) {
    eager.run();
    compiled.run();
    EXPECT_LT(testing::relative_error(compiled.read_output("logits"), eager.read_output("logits")), 1e-2)
        << "run " << run;
  }
}

TEST_P(LowWeights, take_tensors_of_the_models_type) {
  Program compiled = program(Compile::fuse);
  const HostTensor weight({DType::fp32, {10000, 128}});
  EXPECT_NO_THROW(compiled.write_input("lm_head.weight", weight));
  EXPECT_THROW(compiled.write_input("lm_head.weight", convert(weight, DType::bf16)), Error);
}

INSTANTIATE_TEST_SUITE_P(all_modes, LowWeights, ::testing::ValuesIn(kAllModes),
                         [](const auto& tested) { return std::string(name(tested.param)); });

}  // namespace
}  // namespace ridgepoint
