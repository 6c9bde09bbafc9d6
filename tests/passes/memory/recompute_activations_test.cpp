// Activation checkpointing: which values backward computes again, and that nothing else changes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/rounding.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

const TransformerConfig kSmall{"test", 50, 8, 16, 24, 3, 2};

Graph recomputed(std::string_view lines, Checkpoint policy, BlockCheckpoints blocks = {}, std::int64_t segment = 1) {
  Graph graph = testing::graph_of(lines);
  PassOptions options({}, testing::target_with_kernels());
  options.mode = Mode::forward_backward;
  options.checkpoint = policy;
  options.checkpoint_segment = segment;
  options.block_checkpoints = std::move(blocks);
  recompute_activations(graph, options);
  return graph;
}

// Two blocks: a norm of what enters, a product, a residual sum.
constexpr const char* kBlocks = R"(
%0:fp32[4,4] = input() {name="x", role="data"}
%1:fp32[4,4] = input() {name="w", role="parameter"}
%2:fp32[4,4] = tanh(%0) @forward "layers.0.ln" ""
%3:fp32[4,4] = matmul(%2, %1) @forward "layers.0.linear" ""
%4:fp32[4,4] = add(%0, %3) @forward "layers.0" ""
%5:fp32[4,4] = tanh(%4) @forward "layers.1.ln" ""
%6:fp32[4,4] = matmul(%5, %1) @forward "layers.1.linear" ""
%7:fp32[4,4] = exp(%6) @forward "layers.1.linear" ""
%8:fp32[4,4] = mul(%7, %6) @backward "layers.1.linear" ""
%9:fp32[4,4] = matmul(%5, %8) @backward "layers.1.linear" ""
%10:fp32[4,4] = matmul(%2, %9) @backward "layers.0.linear" ""
output "y" %7
output "g" %10
)";

TEST(RecomputeActivations, of_blocks_copies_what_backward_needs_before_its_first_reader) {
  EXPECT_EQ(testing::lines_of(recomputed(kBlocks, Checkpoint::block)), testing::after_lines(kBlocks, R"(
...
%8:fp32[4,4] = tanh(%4) @recompute "layers.1.ln" ""
%9:fp32[4,4] = matmul(%8, %1) @recompute "layers.1.linear" ""
%10:fp32[4,4] = mul(%7, %9) @backward "layers.1.linear" ""
%11:fp32[4,4] = matmul(%8, %10) @backward "layers.1.linear" ""
%12:fp32[4,4] = tanh(%0) @recompute "layers.0.ln" ""
%13:fp32[4,4] = matmul(%12, %11) @backward "layers.0.linear" ""
output "y" %7
output "g" %13
)")) << "%7 is a result, so it is there anyway";
}

// The loss needs the value until the end of the forward phase in any case.
TEST(RecomputeActivations, of_blocks_saves_what_the_loss_reads) {
  const std::string before = R"(
%0:fp32[4,4] = input() {name="x", role="data"}
%1:fp32[4,4] = input() {name="w", role="parameter"}
%2:fp32[4,4] = tanh(%0) @forward "layers.0.ln" ""
%3:fp32[4,4] = matmul(%2, %1) @forward "layers.0.router" ""
%4:fp32[4,4] = exp(%3) @forward "layers.0.router" ""
%5:fp32[] = reduce_sum(%4) {axes=[0,1], keep_dims=false} @loss "loss" ""
)";
  Graph graph = recomputed(before + R"(%6:fp32[4,4] = mul(%4, %3) @backward "layers.0.router" ""
output "loss" %5 loss
output "g" %6
)",
                           Checkpoint::block);
  EXPECT_EQ(testing::lines_of(graph), before + R"(%6:fp32[4,4] = tanh(%0) @recompute "layers.0.ln" ""
%7:fp32[4,4] = matmul(%6, %1) @recompute "layers.0.router" ""
%8:fp32[4,4] = mul(%4, %7) @backward "layers.0.router" ""
output "loss" %5 loss
output "g" %8
)");
}

const std::string kForwardOfBlocks = testing::after_lines(kBlocks, R"(
...
%8:fp32[4,4] = tanh(%0) @recompute "layers.0.ln" ""
%9:fp32[4,4] = matmul(%8, %1) @recompute "layers.0.linear" ""
%10:fp32[4,4] = add(%0, %9) @recompute "layers.0" ""
%11:fp32[4,4] = tanh(%10) @recompute "layers.1.ln" ""
%12:fp32[4,4] = matmul(%11, %1) @recompute "layers.1.linear" ""
%13:fp32[4,4] = mul(%7, %12) @backward "layers.1.linear" ""
%14:fp32[4,4] = matmul(%11, %13) @backward "layers.1.linear" ""
)");

TEST(RecomputeActivations, of_a_segment_of_blocks_copies_all_of_them_before_the_first_reader) {
  EXPECT_EQ(testing::lines_of(recomputed(kBlocks, Checkpoint::block, {}, 2)),
            kForwardOfBlocks +
                R"(%15:fp32[4,4] = matmul(%8, %14) @backward "layers.0.linear" ""
output "y" %7
output "g" %15
)");
}

TEST(RecomputeActivations, of_nested_segments_computes_each_block_again_from_its_input) {
  EXPECT_EQ(testing::lines_of(recomputed(kBlocks, Checkpoint::nested, {}, 2)),
            kForwardOfBlocks +
                R"(%15:fp32[4,4] = tanh(%0) @recompute "layers.0.ln" ""
%16:fp32[4,4] = matmul(%15, %14) @backward "layers.0.linear" ""
output "y" %7
output "g" %16
)");
  EXPECT_EQ(testing::lines_of(recomputed(kBlocks, Checkpoint::nested)),
            testing::lines_of(recomputed(kBlocks, Checkpoint::block)));
}

TEST(RecomputeActivations, of_selected_values_saves_products) {
  EXPECT_EQ(testing::lines_of(recomputed(kBlocks, Checkpoint::selective)), testing::after_lines(kBlocks, R"(
...
%9:fp32[4,4] = tanh(%4) @recompute "layers.1.ln" ""
%10:fp32[4,4] = matmul(%9, %8) @backward "layers.1.linear" ""
%11:fp32[4,4] = tanh(%0) @recompute "layers.0.ln" ""
%12:fp32[4,4] = matmul(%11, %10) @backward "layers.0.linear" ""
output "y" %7
output "g" %12
)"));
}

TEST(RecomputeActivations, of_selected_values_saves_what_a_recurrence_gave) {
  constexpr std::string_view kRecurrence = R"(
%0:fp32[4,4] = input() {name="x", role="data"}
%1:fp32[4] = input() {name="g", role="data"}
%2:fp32[4,4] = tanh(%0) @forward "layers.0.ln" ""
%3:fp32[4,4] = linear_attention(%2, %2, %2, %1, %1) {delta=true, scale=0.5} @forward "layers.0.mixer" ""
%4:fp32[4,4] = exp(%3) @forward "layers.0.mixer" ""
%5:fp32[4,4] = mul(%4, %3) @backward "layers.0.mixer" ""
%6:fp32[4,4] = mul(%5, %2) @backward "layers.0.mixer" ""
output "y" %4
output "g" %6
)";
  const Graph selective = recomputed(kRecurrence, Checkpoint::selective);
  EXPECT_EQ(testing::count(selective, Op::linear_attention), 1u);
  EXPECT_EQ(testing::count(selective, Op::tanh), 2u);
  EXPECT_EQ(testing::count(recomputed(kRecurrence, Checkpoint::block), Op::linear_attention), 2u);
}

TEST(RecomputeActivations, of_each_block_follows_its_own_policy) {
  const auto automatic = [](BlockCheckpoints blocks) {
    return testing::lines_of(recomputed(kBlocks, Checkpoint::automatic, std::move(blocks)));
  };
  EXPECT_EQ(automatic({}), kBlocks);
  EXPECT_EQ(automatic({{"layers.0", Checkpoint::none}, {"layers.7", Checkpoint::block}}), kBlocks);
  EXPECT_EQ(automatic({{"layers.0", Checkpoint::block}, {"layers.1", Checkpoint::block}}),
            testing::lines_of(recomputed(kBlocks, Checkpoint::block)));
  EXPECT_EQ(automatic({{"layers.0", Checkpoint::block}, {"layers.1", Checkpoint::selective}}),
            testing::lines_of(recomputed(kBlocks, Checkpoint::selective)))
      << "the product of the first block is read by no gradient";
  EXPECT_EQ(automatic({{"layers.0", Checkpoint::block}}), testing::after_lines(kBlocks, R"(
...
%10:fp32[4,4] = tanh(%0) @recompute "layers.0.ln" ""
%11:fp32[4,4] = matmul(%10, %9) @backward "layers.0.linear" ""
output "y" %7
output "g" %11
)"));
}

TEST(RecomputeActivations, of_attention_stays_between_its_two_products) {
  constexpr const char* kAttention = R"(
%0:fp32[4,4] = input() {name="q", role="data"}
%1:fp32[4,4] = input() {name="w", role="parameter"}
%2:fp32[4,4] = matmul(%0, %1)
%3:fp32[4,4] = matmul(%2, %0)
%4:fp32[4,4] = exp(%3)
%5:fp32[4,4] = matmul(%4, %0)
%6:fp32[4,4] = exp(%5)
%7:fp32[4,4] = matmul(%4, %5) @backward "" ""
%8:fp32[4,4] = mul(%7, %6) @backward "" ""
output "g" %8
)";
  EXPECT_EQ(testing::lines_of(recomputed(kAttention, Checkpoint::attention)), testing::after_lines(kAttention, R"(
...
%7:fp32[4,4] = matmul(%2, %0) @recompute "" ""
%8:fp32[4,4] = exp(%7) @recompute "" ""
%9:fp32[4,4] = matmul(%8, %5) @backward "" ""
%10:fp32[4,4] = mul(%9, %6) @backward "" ""
output "g" %10
)"));
}

TEST(RecomputeActivations, leaves_graphs_without_blocks_or_attention_and_what_depends_on_weights_alone) {
  constexpr const char* kPlain = R"(
%0:fp32[4,4] = input() {name="x", role="data"}
%1:fp32[4,4] = input() {name="w", role="parameter"}
%2:bf16[4,4] = cast(%1) {dtype="bf16"} @forward "layers.0.linear" ""
%3:fp32[4,4] = tanh(%0) @forward "head" ""
%4:bf16[4,4] = exp(%2) @backward "layers.0.linear" ""
%5:fp32[4,4] = exp(%3) @backward "head" ""
output "g" %4
output "h" %5
)";
  for (const Checkpoint policy : kAllCheckpoints)
    EXPECT_EQ(testing::lines_of(recomputed(kPlain, policy)), kPlain) << name(policy);
}

struct StepOutcome {
  std::map<std::string, HostTensor> gradients;
  std::size_t activation_bytes = 0;  // before backward, without the inputs of the graph
  std::size_t live_bytes = 0;        // at the most
  std::set<Phase> phases;
};

StepOutcome run(const char* device, const TransformerConfig& config, CompileOptions options) {
  const Transformer model(config, 2);
  options.mode = Mode::forward_backward;
  Program program(model.build(), open_device(device), {.compile = options});
  if (std::string_view(device) != "null") initialise(program, model, 0);
  program.run();
  program.synchronize();
  StepOutcome result;
  result.activation_bytes = program.before_backward_bytes();
  result.live_bytes = program.liveness_lower_bound_bytes();
  for (const NodeId id : program.graph().inputs())
    result.activation_bytes -= block_bytes(program.graph().type(program.graph().node(id).outputs[0]).bytes());
  for (const LaunchInfo& launch : program.launches()) result.phases.insert(program.graph().node(launch.node).phase);
  if (std::string_view(device) == "null") return result;
  for (const Output& output : program.graph().outputs()) {
    if (output.role == OutputRole::gradient) result.gradients[output.name] = program.read_output(output.name);
  }
  return result;
}

// Fused nodes round low values where they write them, and recomputed values are fused otherwise.
bool repeats_to_the_bit(Precision precision, Compile level) {
  return precision == Precision::fp32 || level == Compile::off;
}

TEST(RecomputeActivations, keeps_the_gradients) {
  for (const AttentionVariant attention :
       {AttentionVariant::composite, AttentionVariant::softmax, AttentionVariant::flash}) {
    TransformerConfig config = kSmall;
    config.attention = attention;
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      for (const Compile level : {Compile::off, Compile::fuse}) {
        const StepOutcome saved = run("cpu", config, {.precision = precision, .level = level});
        ASSERT_FALSE(saved.gradients.empty());
        EXPECT_FALSE(saved.phases.contains(Phase::recompute));
        for (const auto& [policy, segment] :
             std::vector<std::pair<Checkpoint, std::int64_t>>{{Checkpoint::attention, 1},
                                                              {Checkpoint::selective, 1},
                                                              {Checkpoint::block, 1},
                                                              {Checkpoint::block, 2},
                                                              {Checkpoint::nested, 2},
                                                              {Checkpoint::nested, 3},
                                                              {Checkpoint::automatic, 1}}) {
          SCOPED_TRACE(
              fmt::format("{} {} {} {} {}", name(policy), segment, name(precision), name(level), name(attention)));
          CompileOptions options{.precision = precision, .level = level, .checkpoint = policy};
          options.checkpoint_segment = segment;
          options.block_checkpoints = {{"layers.0", Checkpoint::block}, {"layers.1", Checkpoint::selective}};
          options.block_tensors = {{"layers.2", {{"attn.output_proj matmul", Saving::keep}}}};
          const StepOutcome again = run("cpu", config, options);
          for (const auto& [name, gradient] : saved.gradients) {
            if (repeats_to_the_bit(precision, level)) {
              EXPECT_TRUE(again.gradients.at(name).data == gradient.data) << name;
            } else {
              EXPECT_LT(testing::relative_error(again.gradients.at(name), gradient), 0.02) << name;
            }
          }
          EXPECT_TRUE(policy == Checkpoint::attention || again.phases.contains(Phase::recompute));
        }
      }
    }
  }
}

TEST(RecomputeActivations, of_blocks_saves_less_than_a_quarter_of_the_activations_of_a_large_model) {
  TransformerConfig config = transformer_preset("large");
  for (const AttentionVariant attention : {AttentionVariant::composite, AttentionVariant::flash}) {
    config.attention = attention;
    for (const Compile level : {Compile::off, Compile::fuse}) {
      const auto activation_bytes = [&](Checkpoint policy) {
        // In an eager run in bf16 the low copies of weights are live too.
        const Precision precision = level == Compile::off ? Precision::fp32 : Precision::bf16;
        return run("null", config, {.precision = precision, .level = level, .checkpoint = policy}).activation_bytes;
      };
      const std::size_t all = activation_bytes(Checkpoint::none);
      const std::size_t selected = activation_bytes(Checkpoint::selective);
      const std::size_t blocks = activation_bytes(Checkpoint::block);
      EXPECT_LT(4 * blocks, all) << name(attention) << ' ' << name(level);
      EXPECT_LT(selected, all) << name(attention) << ' ' << name(level);
      EXPECT_LT(blocks, selected) << name(attention) << ' ' << name(level);
    }
  }
}

// Of 36 blocks, segments of six keep six inputs. One level then has all values of six blocks at once, two levels those
// of one block and six inputs.
TEST(RecomputeActivations, of_segments_saves_their_inputs_alone) {
  TransformerConfig config = transformer_preset("large");
  config.context = 1024;  // the values of six blocks then need more than all gradients
  const auto outcome = [&](Checkpoint policy, std::int64_t segment) {
    return run("null", config, {.checkpoint = policy, .checkpoint_segment = segment});
  };
  const StepOutcome each = outcome(Checkpoint::block, 1), one_level = outcome(Checkpoint::block, 6),
                    nested = outcome(Checkpoint::nested, 6);
  const std::size_t input = block_bytes(sizeof(float) * 2 * 1024 * 1280);
  EXPECT_EQ(each.activation_bytes - one_level.activation_bytes, 30 * input);
  EXPECT_EQ(nested.activation_bytes, one_level.activation_bytes);
  const std::size_t block = (outcome(Checkpoint::none, 1).activation_bytes - each.activation_bytes) / 36;
  EXPECT_GT(one_level.live_bytes, each.live_bytes + 4 * block);
  EXPECT_LT(nested.live_bytes, each.live_bytes + block);
}

}  // namespace
}  // namespace ridgepoint
