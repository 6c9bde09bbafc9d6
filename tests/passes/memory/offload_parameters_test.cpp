// Weights of blocks in the memory of the host: which ones, when they are copied, and that a run computes the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/rounding.h"
#include "ir/stored_tensors.h"
#include "passes/memory/offload_case.h"

namespace ridgepoint {
namespace {

using testing::OffloadCase;
using testing::plan_with;

// Whose feed-forward layers have weights of 2 MiB, or 1 MiB in bf16; and one with weights of 1 MiB in nf4.
const TransformerConfig kWideWeights{"custom", 512, 16, 64, 8192, 6, 2};
const TransformerConfig kWiderWeights{"custom", 512, 16, 64, 32768, 8, 2};

constexpr Offload kWithStates = Offload::optimizer | Offload::parameters;
constexpr Offload kAll = kWithStates | Offload::activations;

OffloadCase weights(std::string name, CompileOptions options, Offload offload = Offload::parameters,
                    TransformerConfig model = kWideWeights, std::string device = "cpu") {
  return {std::move(name), std::move(options), offload, std::move(model), std::move(device)};
}

class OffloadedParameters : public ::testing::TestWithParam<OffloadCase> {};

TEST_P(OffloadedParameters, give_the_same_bits_within_less_memory) {
  testing::expect_same_bits_within_less_memory(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    all, OffloadedParameters,
    ::testing::Values(
        weights("forward", {}), weights("compiled_forward", {.level = Compile::full}),
        weights("backward", {.mode = Mode::forward_backward, .level = Compile::full}),
        weights(
            "checkpointed",
            {.mode = Mode::forward_backward, .level = Compile::full, .checkpoint = Checkpoint::block, .accumulate = 2}),
        weights("eager_step", {.mode = Mode::step}), weights("step", {.mode = Mode::step, .level = Compile::full}),
        weights("low_step", {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full}),
        weights("low_step_with_states", {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full},
                kWithStates),
        weights("clipped_with_all", {.mode = Mode::step, .level = Compile::full, .clip_norm = 0.5}, kAll),
        weights("no_masters",
                {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full, .master_weights = false},
                kWithStates),
        weights("lora",
                {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full, .lora = LoraOptions{}}),
        weights("eager_lora", {.mode = Mode::step, .precision = Precision::bf16, .lora = LoraOptions{}}),
        weights("qlora",
                {.mode = Mode::step,
                 .precision = Precision::bf16,
                 .level = Compile::full,
                 .lora = LoraOptions{},
                 .base_weights = BaseWeights::nf4},
                Offload::parameters, kWiderWeights),
        weights("reference", {}, Offload::parameters, kWideWeights, "reference")),
    [](const auto& tested) { return tested.param.name; });

// By the names of the inputs that a copy of the plan's reads, in the order of the copies: their phases.
std::map<std::string, std::vector<Phase>> copies_of_inputs(const ProgramPlan& plan) {
  std::map<std::string, std::vector<Phase>> copies;
  for (const PlanStep& step : plan.execution().steps) {
    const Node& node = plan.graph().node(step.node);
    if (node.op != Op::copy_from_host) continue;
    for (const Value value : node.inputs) copies[input_name(plan.graph().producer_node(value))].push_back(node.phase);
  }
  return copies;
}

TEST(OffloadParameters, copies_large_weights_of_blocks_for_each_phase) {
  const ProgramPlan plan = plan_with(weights("", {.mode = Mode::forward_backward}), Offload::parameters);
  const auto copies = copies_of_inputs(plan);
  std::size_t bytes = 0;
  for (const NodeId id : plan.graph().inputs(Role::parameter)) {
    const Node& node = plan.graph().node(id);
    const std::string name(input_name(node));
    const bool is_large_of_block = name.find(".ffn.w") != std::string::npos;
    EXPECT_EQ(node.attributes.get_or(kOnHost, false), is_large_of_block) << name;
    if (!is_large_of_block) continue;
    bytes += block_bytes(plan.graph().type(node.outputs[0]).bytes());
    // The last block keeps its weights between the phases.
    const std::vector<Phase> phases =
        name.starts_with("layers.5") ? std::vector{Phase::forward} : std::vector{Phase::forward, Phase::backward};
    EXPECT_EQ(copies.at(name), phases) << name;
  }
  EXPECT_EQ(plan.execution().host.bytes, bytes);
}

TEST(OffloadParameters, copies_new_weights_back_a_group_at_a_time) {
  // Updates of 64 MiB of weights each block.
  OffloadCase wide = weights("", {.mode = Mode::step, .level = Compile::full});
  wide.device = "null";
  wide.model.d_model = 1024;
  wide.model.d_ff = 4096;
  const ProgramPlan plan = plan_with(wide, Offload::parameters);
  const std::vector<PlanStep>& steps = plan.execution().steps;
  std::size_t updates = 0, most_on_device = 0, stores = 0;
  for (const PlanStep& step : steps) {
    const Node& node = plan.graph().node(step.node);
    stores += node.op == Op::copy_to_host ? 1 : 0;
    if (node.op != Op::adamw) continue;
    ++updates;
    std::size_t bytes = 0;
    for (const Value value : node.outputs) {
      const Buffer& buffer = plan.execution().buffers[plan.execution().values[value.id].buffer];
      if (buffer.category == MemoryCategory::optimizer_state && !buffer.persistent) bytes += buffer.bytes;
    }
    most_on_device = std::max(most_on_device, bytes);
  }
  EXPECT_GE(updates, 6U);
  EXPECT_LE(stores, updates);
  EXPECT_GE(stores, 6U);
  EXPECT_GT(most_on_device, 0U);
  EXPECT_LE(most_on_device, std::size_t{48} << 20);
}

TEST(OffloadParameters, copies_no_frozen_weights_back) {
  const CompileOptions options{
      .mode = Mode::step, .precision = Precision::bf16, .level = Compile::full, .lora = LoraOptions{}};
  const ProgramPlan plan = plan_with(weights("", options), Offload::parameters);
  EXPECT_FALSE(copies_of_inputs(plan).empty());
  EXPECT_TRUE(testing::launches_of(plan, Op::copy_to_host).empty());
}

TEST(OffloadParameters, leaves_small_weights) {
  OffloadCase small = weights("", {});
  small.model.d_ff = 1024;
  const ProgramPlan plan = plan_with(small, Offload::parameters);
  EXPECT_EQ(plan.execution().host.bytes, 0U);
  EXPECT_TRUE(copies_of_inputs(plan).empty());
}

}  // namespace
}  // namespace ridgepoint
