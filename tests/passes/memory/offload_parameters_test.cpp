// Weights of blocks in the memory of the host: which ones, when they are copied, and that a run computes the same.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/rounding.h"
#include "ir/stored_tensors.h"
#include "passes/memory/offload_case.h"
#include "support/matchers.h"
#include "train/checkpoint/late_device.h"

namespace ridgepoint {
namespace {

using testing::OffloadCase;
using testing::plan_with;

// Whose feed-forward layers have weights of 2 MiB, or 1 MiB in bf16; and one with weights of 1 MiB in nf4.
const TransformerConfig kWideWeights{"custom", 512, 16, 64, 8192, 6, 2};
const TransformerConfig kWiderWeights{"custom", 512, 16, 64, 32768, 8, 2};

constexpr std::string_view kLayers = "layers.";  // with which the names of weights of blocks begin
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
                 .base_weights = BaseWeights::nf4,
                 .lora = LoraOptions{}},
                Offload::parameters, kWiderWeights),
        weights("reference", {}, Offload::parameters, kWideWeights, "reference")),
    [](const auto& tested) { return tested.param.name; });

// By the names of the inputs that a copy of the plan's reads, in the order of the copies: their phases.
std::map<std::string, std::vector<Phase>> copies_of_inputs(const ProgramPlan& plan) {
  std::map<std::string, std::vector<Phase>> copies;
  for (const PlanStep& step : plan.execution().steps) {
    const Node& node = plan.graph().node(step.node);
    if (node.op != Op::copy_from_host) continue;
    for (const Value value : node.inputs) {
      const Node& stored = plan.graph().producer_node(value);
      if (stored.op == Op::input) copies[input_name(stored)].push_back(node.phase);
    }
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

// A rank has parts of weights, and gathers the weights of a block for each phase.
TEST(OffloadParameters, copies_a_part_of_a_weight_for_each_gather) {
  OffloadCase divided = weights("", {.mode = Mode::step});
  divided.device = "null";
  divided.options.parallel = {.data = 2, .shard = Sharding::parameters};
  const auto copies = copies_of_inputs(plan_with(divided, Offload::parameters));
  EXPECT_EQ(copies.size(), 6U * 3U);
  for (const auto& [name, phases] : copies) {
    EXPECT_THAT(name, HasSubstr(".ffn.w"));
    // The last two blocks are gathered for backward ahead of the head.
    const bool is_early = name.starts_with("layers.4") || name.starts_with("layers.5");
    const Phase of_second = is_early ? Phase::forward : Phase::backward;
    EXPECT_EQ(phases, (std::vector{Phase::forward, of_second, Phase::optimizer})) << name;
  }
}

// What the ranks gather overwrites the weights on the host, which need not come for that.
TEST(OffloadParameters, copies_no_old_weight_ahead_of_the_gather_of_the_new_one) {
  OffloadCase divided = weights("", {.mode = Mode::step, .precision = Precision::fp16, .level = Compile::full});
  divided.device = "null";
  divided.options.parallel = {.data = 2, .shard = Sharding::gradients};
  const ProgramPlan plan = plan_with(divided, Offload::parameters);
  const auto copies = copies_of_inputs(plan);
  EXPECT_EQ(copies.size(), 6U * 2U) << "two of the three weights of a layer are merged";
  for (const auto& [name, phases] : copies) EXPECT_EQ(std::ranges::count(phases, Phase::optimizer), 0) << name;
  EXPECT_FALSE(testing::launches_of(plan, Op::copy_to_host).empty());
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
      if (buffer.category == MemoryCategory::parameter && !buffer.persistent) bytes += buffer.bytes;
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

TEST(OffloadParameters, copies_weights_as_often_beside_activations) {
  OffloadCase deep = weights("", {.mode = Mode::step, .level = Compile::full});
  deep.model = {"custom", 512, 128, 256, 4096, 4, 2};
  deep.device = "null";
  const ProgramPlan both = plan_with(deep, Offload::parameters | Offload::activations);
  ASSERT_FALSE(testing::launches_of(both, Op::copy_to_host).empty());
  const auto alone = copies_of_inputs(plan_with(deep, Offload::parameters));
  const auto beside = copies_of_inputs(both);
  ASSERT_FALSE(alone.empty());
  for (const auto& [name, phases] : alone) EXPECT_EQ(beside.at(name), phases) << name;
}

TEST(OffloadParameters, have_the_category_of_weights_on_the_device) {
  for (const Offload set : {Offload::parameters, kWithStates}) {
    const OffloadCase low = weights("", {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full});
    const ProgramPlan plan = plan_with(low, set);
    const ExecutionPlan& execution = plan.execution();
    const auto category = [&](Value value) { return execution.buffers[execution.values[value.id].buffer].category; };
    std::size_t weights_of_updates = 0;
    for (const std::size_t step : testing::launches_of(plan, Op::copy_from_host)) {
      const Node& fetch = plan.graph().node(execution.steps[step].node);
      for (std::size_t i = 0; i < fetch.inputs.size(); ++i) {
        EXPECT_EQ(category(fetch.outputs[i]), category(fetch.inputs[i]));
        const bool is_weight = category(fetch.inputs[i]) == MemoryCategory::parameter;
        if (is_weight && fetch.phase == Phase::optimizer) ++weights_of_updates;
      }
    }
    EXPECT_GT(weights_of_updates, 0U) << name(set);
  }
}

TEST(OffloadParameters, are_parts_of_the_state_on_the_host) {
  const OffloadCase low = weights("", {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full});
  const Program program(plan_with(low, Offload::parameters), nullptr, {});
  std::size_t split = 0;
  for (const StatePart& part : program.state_parts()) {
    const bool is_weight = part.is_parameter && part.name.find(".ffn.w") != std::string::npos;
    EXPECT_EQ(part.is_on_host, is_weight) << part.name;
    if (is_weight && part.is_split) ++split;  // whose low halves are on the device
  }
  EXPECT_GT(split, 0U);
}

class CountingDevice : public testing::LateDevice {
 public:
  void copy_to_device(void* to, const void* from, std::size_t bytes) override {
    copied_bytes += bytes;
    LateDevice::copy_to_device(to, from, bytes);
  }
  std::size_t copied_bytes = 0;
};

TEST(OffloadParameters, take_packed_bytes_to_the_memory_of_the_host) {
  const auto device = std::make_shared<CountingDevice>();
  Program program(build_transformer(kWiderWeights, 2), device,
                  {.compile = {.precision = Precision::bf16,
                               .level = Compile::full,
                               .base_weights = BaseWeights::nf4,
                               .offload = Offload::parameters}});
  const std::vector<StatePart> parts = program.state_parts();
  const auto packed =
      std::ranges::find_if(parts, [](const StatePart& part) { return part.is_packed && part.is_on_host; });
  ASSERT_NE(packed, parts.end());
  HostTensor bytes({DType::packed, packed->type.shape});
  for (std::size_t i = 0; i < bytes.data.size(); ++i) bytes.data[i] = static_cast<std::byte>(i % 113);
  const std::size_t before = device->copied_bytes;
  program.write_input(packed->name.substr(packed->name.find(kLayers)), bytes);
  EXPECT_EQ(device->copied_bytes, before);
  std::vector<std::byte> written(packed->bytes());
  program.read_part(*packed, written);
  EXPECT_TRUE(std::ranges::equal(written, bytes.data));
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
