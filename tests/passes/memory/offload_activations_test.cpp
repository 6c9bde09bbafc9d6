// Activations in the memory of the host: what moves, when it is copied, and that a run computes the same.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/rounding.h"
#include "ir/scope.h"
#include "ops/layout.h"
#include "passes/memory/offload_case.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::launches_of;
using testing::OffloadCase;
using testing::plan_with;

// Whose feed-forward layers save tensors of 2 MiB, or 1 MiB in bf16; and one whose blocks have inputs of 1 MiB.
const TransformerConfig kWideActivations{"custom", 512, 64, 64, 4096, 6, 2};
const TransformerConfig kLongActivations{"custom", 512, 2048, 64, 64, 10, 1, AttentionVariant::flash};

OffloadCase saved(std::string name, CompileOptions options, TransformerConfig model = kWideActivations,
                  std::string device = "cpu", AllocatorKind allocator = AllocatorKind::caching) {
  if (options.mode == Mode::forward) options.mode = Mode::forward_backward;
  return {std::move(name), std::move(options), Offload::activations, std::move(model), std::move(device), allocator};
}

std::size_t first_step_behind(const ProgramPlan& plan, std::size_t transfer) {
  const std::vector<PlanStep>& steps = plan.execution().steps;
  const auto waits = [&](const PlanStep& step) { return std::ranges::find(step.waits, transfer) != step.waits.end(); };
  return static_cast<std::size_t>(std::ranges::find_if(steps, waits) - steps.begin());
}

class OffloadedActivations : public ::testing::TestWithParam<OffloadCase> {};

TEST_P(OffloadedActivations, give_the_same_bits_within_less_memory) {
  testing::expect_same_bits_within_less_memory(GetParam());
}

constexpr Precision kBf16 = Precision::bf16;
constexpr Compile kFull = Compile::full;
constexpr Checkpoint kBlock = Checkpoint::block;

INSTANTIATE_TEST_SUITE_P(
    all, OffloadedActivations,
    ::testing::Values(
        saved("eager", {}), saved("fused", {.level = Compile::fuse}), saved("full", {.level = kFull}),
        saved("arena", {.level = kFull}, kWideActivations, "cpu", AllocatorKind::arena),
        saved("bf16", {.precision = kBf16, .level = kFull}, kWideActivations, "cpu", AllocatorKind::arena),
        saved("accumulated", {.level = kFull, .accumulate = 2}, kWideActivations, "cpu", AllocatorKind::arena),
        saved("step", {.mode = Mode::step, .precision = kBf16, .level = kFull}),
        saved("clipped_step", {.mode = Mode::step, .level = kFull, .clip_norm = 0.5}),
        saved("lora", {.mode = Mode::step, .precision = kBf16, .level = kFull, .lora = LoraOptions{}}),
        saved("checkpointed", {.level = kFull, .checkpoint = kBlock}, kLongActivations, "cpu", AllocatorKind::arena),
        saved("eager_checkpointed", {.checkpoint = kBlock}, kLongActivations),
        saved("selective", {.level = kFull, .checkpoint = Checkpoint::selective}),
        saved("reference", {}, kWideActivations, "reference")),
    [](const auto& tested) { return tested.param.name; });

std::vector<std::size_t> live_bytes_of(const ProgramPlan& plan) {
  const std::vector<std::size_t> no_workspaces(plan.execution().steps.size());
  return live_bytes_by_step(lifetimes_of(plan.execution(), no_workspaces));
}

const OffloadCase kSaved = saved("full", {.level = kFull});

// Of the operands of the copies to the host for which a step behind `step` waits.
std::size_t bytes_on_their_way(const ProgramPlan& plan, std::size_t step) {
  std::size_t bytes = 0;
  for (const std::size_t store : launches_of(plan, Op::copy_to_host)) {
    if (store > step || first_step_behind(plan, store) < step) continue;
    for (const Operand& operand : plan.execution().steps[store].inputs)
      bytes += block_bytes(plan.execution().buffers[operand.buffer].bytes);
  }
  return bytes;
}

TEST(OffloadActivations, frees_what_is_on_the_host_while_backward_begins) {
  OffloadCase deep = kSaved;
  deep.model.layers = 12;
  const ProgramPlan plain = plan_with(deep, Offload::none);
  const ProgramPlan offloaded = plan_with(deep, Offload::activations);
  const std::size_t plain_begin = *plain.execution().backward_begin;
  const std::size_t begin = *offloaded.execution().backward_begin;
  const std::size_t host = offloaded.execution().host.bytes;
  const std::size_t moving = bytes_on_their_way(offloaded, begin);
  EXPECT_GT(host, 2 * moving);
  EXPECT_EQ(live_bytes_of(offloaded)[begin] + host - moving, live_bytes_of(plain)[plain_begin]);
}

TEST(OffloadActivations, copies_few_blocks_at_the_same_time) {
  const ProgramPlan plan = plan_with(kSaved, Offload::activations);
  const std::vector<std::size_t> stores = launches_of(plan, Op::copy_to_host);
  const std::vector<std::size_t> fetches = launches_of(plan, Op::copy_from_host);
  const auto block = [&](std::size_t step) {
    return std::string(block_of(plan.graph().scope_name(plan.graph().node(plan.execution().steps[step].node))));
  };
  ASSERT_EQ(stores.size(), 5U);  // all blocks but the last
  ASSERT_EQ(fetches.size(), 5U);
  const std::size_t begin = *plan.execution().backward_begin;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    EXPECT_EQ(block(stores[i]), "layers." + std::to_string(i));
    EXPECT_EQ(block(fetches[i]), "layers." + std::to_string(4 - i));
    EXPECT_LT(stores[i], begin);
    EXPECT_GE(fetches[i], begin);
    const std::size_t reader = first_step_behind(plan, fetches[i]);
    EXPECT_EQ(block(reader), block(fetches[i]));
    // Ahead of the block, and not of many.
    if (i >= 3) {
      EXPECT_LT(fetches[i], first_step_behind(plan, fetches[i - 3]));
      EXPECT_GT(fetches[i], first_step_behind(plan, fetches[i - 3]) - 2);
    }
    if (i + 4 < stores.size()) {
      EXPECT_LE(first_step_behind(plan, stores[i]), stores[i + 4]);
    }
  }
}

TEST(OffloadActivations, shares_the_hosts_memory_among_micro_batches) {
  OffloadCase accumulated = kSaved;
  accumulated.options.accumulate = 3;
  const ProgramPlan plan = plan_with(accumulated, Offload::activations);
  EXPECT_EQ(launches_of(plan, Op::copy_to_host).size(), 15U);
  EXPECT_EQ(plan.execution().host.bytes, plan_with(kSaved, Offload::activations).execution().host.bytes);
}

TEST(OffloadActivations, leaves_small_tensors_and_the_last_block) {
  OffloadCase small = kSaved;
  small.model.d_ff = 512;
  EXPECT_TRUE(launches_of(plan_with(small, Offload::activations), Op::copy_to_host).empty());
  OffloadCase shallow = kSaved;
  shallow.model.layers = 1;
  EXPECT_TRUE(launches_of(plan_with(shallow, Offload::activations), Op::copy_to_host).empty());
}

TEST(OffloadActivations, leaves_results) {
  OffloadCase kept = kSaved;
  kept.options.keep.activations = true;
  const ProgramPlan plan = plan_with(kept, Offload::activations);
  const std::vector<ValueLayout> layouts = value_layouts(plan.graph());
  std::set<Value> stored;  // what is copied to the host
  for (const std::size_t store : launches_of(plan, Op::copy_to_host)) {
    for (const Value value : plan.graph().node(plan.execution().steps[store].node).inputs)
      stored.insert(layouts[value.id].root);
  }
  for (const Output& output : plan.graph().outputs())
    EXPECT_FALSE(stored.contains(layouts[output.value.id].root)) << output.name;
}

TEST(OffloadActivations, need_backward_and_enough_memory) {
  const auto plan = [](const CompileOptions& options) {
    ProgramPlan(build_transformer(kWideActivations, 2), open_device("null"), {.compile = options});
  };
  CompileOptions options{.mode = Mode::forward_backward, .offload = Offload::activations};
  options.host_memory_limit_bytes = 1 << 20;
  EXPECT_THAT(error_of([&] { plan(options); }),
              AllOf(HasSubstr("--offload activations needs "),
                    HasSubstr("may take 1.00 MiB; raise --host-memory, offload less")));
  options = {.mode = Mode::training_forward, .offload = Offload::activations};
  EXPECT_THAT(error_of([&] { plan(options); }), HasSubstr("has no backward phase"));
}

}  // namespace
}  // namespace ridgepoint
