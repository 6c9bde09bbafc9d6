// Mode training_forward: the forward phase of a training step alone, with what backward would read in memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/transformer/attention.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

const TransformerConfig kSavingModel{"test", 50, 8, 16, 24, 3, 2};

TEST(SaveForBackward, makes_an_output_of_each_storage_that_backward_reads) {
  Graph graph = testing::graph_of(R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,5] = input() {name="w", role="parameter"}
%2:fp32[4] = input() {name="targets", role="data"}
%3:fp32[4,6] = tanh(%0) @forward "a" ""
%4:fp32[6,4] = transpose(%3) {permutation=[1,0]} @forward "a" ""
%5:fp32[4,6] = neg(%3) @forward "b" ""
%6:fp32[4,5] = matmul(%5, %1) @forward "b" ""
%7:fp32[4] = exp(%2) @loss "loss" ""
%8:fp32[4,5] = exp(%6) @backward "b" ""
%9:fp32[6,5] = matmul(%4, %8) @backward "a" ""
output "y" %5
output "loss" %7 loss
output "grad.w" %9 gradient "w"
)");
  EXPECT_TRUE(save_for_backward(graph, PassOptions({.mode = Mode::training_forward})));
  eliminate_dead_code(graph, {});
  verify(graph);
  EXPECT_EQ(testing::lines_of(graph), R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,5] = input() {name="w", role="parameter"}
%2:fp32[4,6] = tanh(%0) @forward "a" ""
%3:fp32[4,6] = neg(%2) @forward "b" ""
%4:fp32[4,5] = matmul(%3, %1) @forward "b" ""
output "y" %3
output "saved.0" %2 activation "a"
output "saved.1" %4 activation "b"
)");
}

Program program(const char* device, const TransformerConfig& config, const CompileOptions& options) {
  const Transformer model(config, 2);
  Program made(model.build(), open_device(device), {.compile = options});
  if (std::string_view(device) != "null") initialise(made, model, 0);
  made.run();
  made.synchronize();
  return made;
}

class TrainingForward : public ::testing::TestWithParam<Compile> {};

TEST_P(TrainingForward, has_the_results_of_forward_and_no_other_phase) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const CompileOptions options{.precision = precision, .level = GetParam()};
    CompileOptions training = options;
    training.mode = Mode::training_forward;
    const Program plain = program("cpu", kSavingModel, options);
    const Program saving = program("cpu", kSavingModel, training);
    const bool is_equal = saving.read_output("logits").data == plain.read_output("logits").data;
    EXPECT_TRUE(is_equal || GetParam() != Compile::off);
    EXPECT_FALSE(saving.graph().find_loss());
    EXPECT_TRUE(std::ranges::none_of(saving.graph().inputs(),
                                     [&](NodeId id) { return input_name(saving.graph().node(id)) == "targets"; }));
    for (const LaunchInfo& launch : saving.launches())
      EXPECT_EQ(saving.graph().node(launch.node).phase, Phase::forward);
    EXPECT_EQ(saving.flops_per_run(), plain.flops_per_run());
  }
}

// They differ by the logits, which the loss may read in fp32, and by the losses.
TEST_P(TrainingForward, leaves_in_memory_what_a_step_has_before_backward) {
  const TransformerConfig config = transformer_preset("small");
  const auto loss_bytes = static_cast<double>(2 * config.context * (config.vocab + 2) * 4);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto run = [&](Mode mode) {
      return program("null", config, {.mode = mode, .precision = precision, .level = GetParam()});
    };
    const std::size_t step = run(Mode::forward_backward).before_backward_bytes();
    const std::size_t left = run(Mode::training_forward).memory_use().allocated_bytes;
    EXPECT_NEAR(static_cast<double>(left), static_cast<double>(step), loss_bytes);
    EXPECT_GT(left, run(Mode::forward).memory_use().allocated_bytes + (std::size_t{100} << 20));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, TrainingForward, ::testing::Values(Compile::off, Compile::fuse, Compile::full),
                         [](const auto& level) { return std::string(name(level.param)); });

TEST(TrainingForwardOfAttention, saves_the_squares_of_its_variant) {
  AttentionProblem problem{.batch = 1, .d_model = 16, .queries = 64, .keys = 64};
  const auto saved = [&](AttentionVariant variant) {
    problem.variant = variant;
    Program made(AttentionCall(problem).build(), open_device("cpu"), {.compile = {.mode = Mode::training_forward}});
    const auto outputs = made.graph().outputs();
    return std::ranges::count_if(outputs, [&](const Output& output) {
      return output.role == OutputRole::activation && made.graph().type(output.value).elements() == 64 * 64;
    });
  };
  EXPECT_EQ(saved(AttentionVariant::naive), 3);
  EXPECT_EQ(saved(AttentionVariant::composite), 2);
  EXPECT_EQ(saved(AttentionVariant::softmax), 1);
  EXPECT_EQ(saved(AttentionVariant::flash), 0);
}

}  // namespace
}  // namespace ridgepoint
