// The time of each phase of a captured run, by events that are nodes of the graph.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "backends/cuda/card.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "inspect/attention/benchmark.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "run/session/steps/step_benchmark.h"

namespace ridgepoint {
namespace {

constexpr double kWorkMs = 0.002;  // of each kernel of the fake card

// `forward` products in one phase and `backward` in another.
Graph products(int forward, int backward) {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {8, 8}}, Role::data);
  Value x = a;
  for (int i = 0; i < forward; ++i) x = matmul(graph, x, a);
  graph.set_phase(Phase::backward);
  for (int i = 0; i < backward; ++i) x = matmul(graph, x, a);
  graph.add_output("x", x);
  return graph;
}

AttentionConfig one_call(Compile level) {
  AttentionConfig config;
  config.device = "cuda";
  config.problem = {.batch = 1, .d_model = 16, .queries = 64, .keys = 64};
  config.compile.level = level;
  config.warmup = 2;
  config.steps = 5;
  return config;
}

RunConfig small_step(Compile level) {
  RunConfig config;
  config.device = "cuda";
  config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 24, 1, 2}, 2);
  config.compile.level = level;
  config.time_phases = true;
  config.warmup = 2;
  config.steps = 1;  // then the medians of phases and of whole iterations are of one iteration
  return config;
}

struct PhaseTimesOnFakeCard : testing::OnFakeCard {
  static int captured_runs() { return fake_count("fake_card_captured_runs"); }
};

TEST_F(PhaseTimesOnFakeCard, are_those_of_each_launch_of_the_graph) {
  on_fake_card([] {
    Program program(products(3, 5), open_device("cuda"), {.compile = {.level = Compile::full}});
    program.time_phases();
    for (int run = 0; run < 4; ++run) {
      program.run();
      program.synchronize();
      EXPECT_EQ(captured_runs(), run);
      const PhaseTimes times = program.phase_times();
      EXPECT_GE(*times[Phase::forward], 2.99 * kWorkMs);
      EXPECT_GE(*times[Phase::backward], 4.99 * kWorkMs);
    }
    EXPECT_TRUE(program.is_captured());
  });
}

TEST_F(PhaseTimesOnFakeCard, make_a_run_be_captured_anew) {
  on_fake_card([] {
    Program program(products(3, 5), open_device("cuda"), {.compile = {.level = Compile::full}});
    for (int run = 0; run < 3; ++run) program.run();
    program.time_phases();
    program.run();
    EXPECT_EQ(captured_runs(), 3);
    EXPECT_GE(*program.phase_times()[Phase::backward], 4.99 * kWorkMs);
  });
}

TEST_F(PhaseTimesOnFakeCard, of_attention_come_from_captured_runs) {
  on_fake_card([] {
    const std::optional<Record> record = measure_attention(one_call(Compile::full));
    EXPECT_EQ(record->status, RunStatus::ok) << record->error.message;
    EXPECT_EQ(record->captured, true);
    EXPECT_EQ(captured_runs(), 2 * (2 + 5 - 1)) << "forward, and forward with backward: all but the first run of each";
    EXPECT_GE(record->attention_call->forward_ms.min, kWorkMs);
    EXPECT_GE(record->attention_call->backward_ms.min, kWorkMs);
  });
}

TEST_F(PhaseTimesOnFakeCard, add_up_to_less_than_the_iteration_captured_or_not) {
  for (const Compile level : {Compile::off, Compile::full}) {
    on_fake_card([level] {
      CeilingCache ceilings;
      const std::optional<Record> record = measure_step(small_step(level), ceilings);
      ASSERT_EQ(record->status, RunStatus::ok) << record->error.message;
      EXPECT_EQ(record->captured, level == Compile::full);
      const PhaseMedians& phases = record->training_step->phase_ms;
      const double sum = *phases.forward + *phases.loss + *phases.backward + *phases.optimizer;
      EXPECT_GT(sum, 0);
      EXPECT_LE(sum, record->training_step->device_time_ms.median);
    });
  }
}

class OnCardPhaseTimes : public testing::OnCard {};

TEST_F(OnCardPhaseTimes, add_up_to_the_iteration_captured_or_not) {
  for (const Compile level : {Compile::off, Compile::full}) {
    RunConfig config = small_step(level);
    config.workload = std::make_shared<Transformer>(transformer_preset("tiny"), 4);
    CeilingCache ceilings;
    const std::optional<Record> record = measure_step(config, ceilings);
    ASSERT_EQ(record->status, RunStatus::ok) << record->error.message;
    EXPECT_EQ(record->captured, level == Compile::full);
    const PhaseMedians& phases = record->training_step->phase_ms;
    const double sum = *phases.forward + *phases.loss + *phases.backward + *phases.optimizer;
    EXPECT_LE(sum, 1.001 * record->training_step->device_time_ms.median);
    EXPECT_GT(sum, 0.5 * record->training_step->device_time_ms.median);
  }
}

TEST_F(OnCardPhaseTimes, of_attention_are_shorter_captured) {
  const std::optional<Record> eager = measure_attention(one_call(Compile::off));
  const std::optional<Record> captured = measure_attention(one_call(Compile::full));
  ASSERT_EQ(captured->status, RunStatus::ok) << captured->error.message;
  EXPECT_EQ(captured->captured, true);
  EXPECT_GT(captured->attention_call->forward_ms.median, 0);
  EXPECT_LT(captured->attention_call->backward_ms.median, eager->attention_call->backward_ms.median);
}

}  // namespace
}  // namespace ridgepoint
