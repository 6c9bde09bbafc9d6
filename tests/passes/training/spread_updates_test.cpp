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
      is_late_ = true;
    }
    void wait() override {
      if (!std::exchange(is_late_, false)) return;
      kernel_->launch({inputs_.data(), outputs_.data(), nullptr});
    }

   private:
    std::unique_ptr<Kernel> kernel_;
    std::vector<void*> inputs_, outputs_;
    bool is_late_ = false;
  };
};

ProgramPlan plan_of(std::shared_ptr<Device> device, CompileOptions options = {}) {
  options.mode = Mode::step;
  options.keep.results = true;
  return {build_transformer(kModel, 1), std::move(device), {.compile = options}};
}

std::size_t count_beside(const Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.order(), [&](NodeId id) { return runs_beside(graph.node(id)); }));
}

class SpreadUpdates : public ::testing::TestWithParam<CompileOptions> {};

TEST_P(SpreadUpdates, computes_the_same_bits_however_late_the_updates_are) {
  const Transformer workload(kModel, 1);
  Program plain(plan_of(open_device("cpu"), GetParam()), nullptr, {});
  Program spread(plan_of(std::make_shared<LateUpdates>(), GetParam()), nullptr, {});
  EXPECT_EQ(count_beside(plain.graph()), 0U);
  EXPECT_GT(count_beside(spread.graph()), 0U);
  initialise(plain, workload, 3);
  initialise(spread, workload, 3);
  for (int step = 0; step < 3; ++step) {
    plain.run();
    spread.run();
    EXPECT_EQ(testing::relative_error(spread.read_output("logits"), plain.read_output("logits")), 0) << step;
  }
  for (const StatePart& part : plain.state_parts())
    EXPECT_EQ(testing::relative_error(spread.read_input(part.name), plain.read_input(part.name)), 0) << part.name;
}

INSTANTIATE_TEST_SUITE_P(
    all, SpreadUpdates,
    ::testing::Values(
        CompileOptions{.precision = Precision::bf16, .level = Compile::full},
        CompileOptions{.precision = Precision::bf16, .level = Compile::full, .checkpoint = Checkpoint::block},
        CompileOptions{.level = Compile::full, .accumulate = 2},
        CompileOptions{.precision = Precision::bf16, .level = Compile::full, .optimizer = {.kind = Optimizer::lion}}));

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
  const auto is_beside = [&](Offload offload) {
    const ProgramPlan plan = plan_of(late, {.level = Compile::full, .offload = offload});
    return std::ranges::any_of(plan.graph().order(),
                               [&](NodeId id) { return plan.graph().node(id).attributes.get_or(kBeside, false); });
  };
  EXPECT_FALSE(is_beside(Offload::optimizer));
  EXPECT_FALSE(is_beside(Offload::parameters));
  EXPECT_TRUE(is_beside(Offload::activations));
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
