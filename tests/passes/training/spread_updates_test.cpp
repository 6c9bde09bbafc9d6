// Updates beside backward: where they stand, which of them do, and that a step computes the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "models/transformer/transformer.h"
#include "ops/collectives.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/graph_lines.h"
#include "passes/memory/update_order.h"
#include "plan/plan.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/rank_threads.h"
#include "support/graphs/run_graph.h"
#include "train/checkpoint/late_device.h"

namespace ridgepoint {
namespace {

// 7.3 million parameters in each layer.
const TransformerConfig kModel{"custom", 512, 8, 1024, 1024, 4, 8};

// The processor, where an update that runs beside others begins only when a launch waits for it: at the latest time
// that a stream of lower priority may take.
class LateUpdates : public testing::LateDevice {
 public:
  bool runs_update_beside(const Graph&, const Node& node) const override { return optimizer_layout(node).has_value(); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    std::unique_ptr<Kernel> kernel = LateDevice::make_kernel(spec);
    if (!runs_beside(spec.node)) return kernel;
    return std::make_unique<Late>(std::move(kernel), spec.inputs.size(), spec.outputs.size());
  }

 private:
  class Late : public Kernel {
   public:
    Late(std::unique_ptr<Kernel> kernel, std::size_t inputs, std::size_t outputs)
        : kernel_(std::move(kernel)), inputs_(inputs), outputs_(outputs) {}
    std::string_view name() const override { return kernel_->name(); }
    void launch(const LaunchArguments& arguments) override {
      std::copy_n(arguments.inputs, inputs_.size(), inputs_.begin());
      std::copy_n(arguments.outputs, outputs_.size(), outputs_.begin());
      after_.assign(arguments.after.begin(), arguments.after.end());
      is_late_ = true;
    }
    void wait() override {
      if (!std::exchange(is_late_, false)) return;
      for (Kernel* earlier : after_) earlier->wait();
      kernel_->launch({inputs_.data(), outputs_.data(), nullptr});
    }

   private:
    std::unique_ptr<Kernel> kernel_;
    std::vector<void*> inputs_, outputs_;
    std::vector<Kernel*> after_;
    bool is_late_ = false;
  };
};

const TransformerConfig kHalf{"custom", 512, 8, 1024, 1024, 2, 8};

ProgramPlan plan_of(std::shared_ptr<Device> device, CompileOptions options = {},
                    const TransformerConfig& model = kModel) {
  options.mode = Mode::step;
  options.keep.results = true;
  return {build_transformer(model, 1), std::move(device), {.compile = options}};
}

bool is_beside(const Node& node) { return optimizer_layout(node) && runs_beside(node); }

std::size_t count_beside(const Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.order(), [&](NodeId id) { return is_beside(graph.node(id)); }));
}

class SpreadUpdates : public ::testing::TestWithParam<CompileOptions> {};

void expect_the_same_bits(const CompileOptions& options, const TransformerConfig& model,
                          const std::shared_ptr<Communicator>& communicator) {
  const Transformer workload(model, 1);
  Program plain(plan_of(open_device("cpu"), options, model), nullptr, {.communicator = communicator});
  Program spread(plan_of(std::make_shared<LateUpdates>(), options, model), nullptr, {.communicator = communicator});
  EXPECT_EQ(count_beside(plain.graph()), 0U);
  EXPECT_GT(count_beside(spread.graph()), 0U);
  for (Program* program : {&plain, &spread}) {
    initialise(*program, workload, 3);
    // Ranks have the same parameters, and data of their own.
    if (options.parallel.rank == 1) program->write_input("inputs", program->read_input("targets"));
  }
  for (int step = 0; step < 2; ++step) {
    plain.run();
    spread.run();
    EXPECT_EQ(testing::relative_error(spread.read_output("logits"), plain.read_output("logits")), 0) << step;
  }
  for (const StatePart& part : plain.state_parts())
    EXPECT_EQ(testing::relative_error(spread.read_input(part.name), plain.read_input(part.name)), 0) << part.name;
}

TEST_P(SpreadUpdates, computes_the_same_bits_however_late_the_updates_are) {
  if (!GetParam().parallel.is_parallel()) return expect_the_same_bits(GetParam(), kModel, nullptr);
  testing::RankThreads(2, testing::CollectiveRuns::in_wait)
      .run([&](std::size_t rank, const std::shared_ptr<Communicator>& communicator) {
        CompileOptions options = GetParam();
        options.parallel.rank = static_cast<std::int64_t>(rank);
        expect_the_same_bits(options, kHalf, communicator);
      });
}

CompileOptions on_two_ranks(Sharding shard, std::int64_t bucket_bytes = std::int64_t{4} << 20) {
  return {.precision = Precision::bf16,
          .level = Compile::full,
          .parallel = {.data = 2, .shard = shard, .bucket_bytes = bucket_bytes}};
}

INSTANTIATE_TEST_SUITE_P(
    all, SpreadUpdates,
    ::testing::Values(
        CompileOptions{.precision = Precision::bf16, .level = Compile::full},
        CompileOptions{.precision = Precision::bf16, .level = Compile::full, .checkpoint = Checkpoint::block},
        CompileOptions{.level = Compile::full, .accumulate = 2},
        CompileOptions{.precision = Precision::bf16, .level = Compile::full, .optimizer = {.kind = Optimizer::lion}},
        on_two_ranks(Sharding::none), on_two_ranks(Sharding::parameters)));

TEST(UpdatesBeside, stand_behind_what_they_need_and_before_the_last_products) {
  const ProgramPlan plan = plan_of(std::make_shared<LateUpdates>(), {.level = Compile::full});
  Graph graph = plan.graph();
  const UpdateOrder order(graph);
  ASSERT_FALSE(order.products().empty());
  for (const PlanStep& step : plan.execution().steps) {
    const Node& node = graph.node(step.node);
    EXPECT_EQ(step.phase, runs_beside(node) ? Phase::backward : node.phase);
  }
  std::size_t beside = 0, behind = 0;
  for (const NodeId id : order.nodes()) {
    const Node& node = graph.node(id);
    if (!optimizer_layout(node)) continue;
    EXPECT_GT(order.position(id), order.ready(id));
    if (!runs_beside(node)) {
      EXPECT_GT(order.position(id), order.products().back()) << "small ones and the last stay behind backward";
      ++behind;
      continue;
    }
    EXPECT_LT(order.position(id), order.products().back());
    EXPECT_GE(graph.type(node.outputs[0]).shape.elements(), 1 << 18);
    ++beside;
  }
  EXPECT_GT(beside, 0U);
  EXPECT_GT(behind, 0U);
}

TEST(UpdatesBeside, are_those_of_a_device_that_runs_them_beside_and_of_gradients_that_nothing_scales) {
  const auto late = std::make_shared<LateUpdates>();
  EXPECT_GT(count_beside(plan_of(late, {.level = Compile::full}).graph()), 0U);
  EXPECT_EQ(count_beside(plan_of(open_device("cpu"), {.level = Compile::full}).graph()), 0U);
  EXPECT_EQ(count_beside(plan_of(late, {.level = Compile::fuse}).graph()), 0U) << "it is not captured";
  EXPECT_EQ(count_beside(plan_of(late, {.decompose = {Op::adamw}, .level = Compile::full}).graph()), 0U);
  EXPECT_EQ(count_beside(plan_of(late, {.level = Compile::full, .clip_norm = 1.0}).graph()), 0U);
  EXPECT_EQ(count_beside(plan_of(late, {.precision = Precision::fp16, .level = Compile::full}).graph()), 0U);
  const auto count_with = [&](Offload offload) {
    return count_beside(plan_of(late, {.level = Compile::full, .offload = offload}).graph());
  };
  EXPECT_EQ(count_with(Offload::optimizer), 0U);
  EXPECT_EQ(count_with(Offload::parameters), 0U);
  EXPECT_GT(count_with(Offload::activations), 0U);
}

// What they update is a part of a rank, and what the last sum sends takes as long as many of them.
TEST(UpdatesBeside, leave_some_that_run_beside_the_last_sum_of_ranks) {
  const auto late = std::make_shared<LateUpdates>();
  for (const Sharding shard : {Sharding::none, Sharding::gradients, Sharding::parameters}) {
    std::size_t before = SIZE_MAX;
    for (const std::int64_t mib : {2, 8, 1024}) {  // the last: all gradients are one sum, behind backward
      const std::size_t beside = count_beside(plan_of(late, on_two_ranks(shard, mib << 20)).graph());
      EXPECT_LT(beside, before) << name(shard) << ' ' << mib;
      before = beside;
    }
    EXPECT_EQ(before, 0U) << name(shard);
  }
}

std::size_t least_bytes(const ProgramPlan& plan) {
  const std::vector<std::size_t> no_workspaces(plan.execution().steps.size());
  return liveness_lower_bound(lifetimes_of(plan.execution(), no_workspaces));
}

// The gradients of few updates wait for them.
TEST(UpdatesBeside, need_no_more_memory) {
  const CompileOptions options{.precision = Precision::bf16, .level = Compile::full};
  EXPECT_LE(least_bytes(plan_of(std::make_shared<LateUpdates>(), options)),
            least_bytes(plan_of(open_device("cpu"), options)));
}

}  // namespace
}  // namespace ridgepoint
