#include "run/peers/peer_benchmark.h"

#include <limits>

#include "core/text/units.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/program/fake_python.h"

namespace ridgepoint {
namespace {

using ::testing::Lt;
using ::testing::Optional;
using enum TorchMode;

RunConfig toy(Mode mode = Mode::step) {
  TransformerConfig model = transformer_preset("tiny");
  model.name = "custom";
  model.layers = 1;
  model.d_model = 16;
  model.d_ff = 24;
  model.heads = 2;
  model.vocab = 50;
  model.context = 8;
  return {.device = "cpu",
          .workload = std::make_shared<Transformer>(model, 2),
          .compile = {.mode = mode},
          .warmup = 1,
          .steps = 7};
}

std::vector<Record> measure(const RunConfig& config, const FakePython& python,
                            const std::vector<TorchMode>& modes = {eager}) {
  PeerFiles files;
  CeilingCache ceilings;
  return measure_with_peers(config, {{python.path(), "9.8.7"}, modes}, files, ceilings).value();
}

const PeerSection& peer_of(const Record& record) { return record.training_step->peer; }

TEST(PeerBenchmark, has_a_record_of_ridgepoint_and_one_for_each_mode) {
  const FakePython python("agrees");
  const std::vector<Record> records = measure(toy(), python, {eager, reduce_overhead});
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_EQ(records[0].engine, "ridgepoint");
  EXPECT_EQ(records[1].engine, "torch 9.8.7 eager");
  EXPECT_EQ(records[2].engine, "torch 9.8.7 reduce-overhead");
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.mode, Mode::step);
    EXPECT_EQ(record.device.kind, "cpu");
    EXPECT_EQ(record.model.d_ff, 24);
    EXPECT_TRUE(record.training_step->tokens_per_second.has_value());
    EXPECT_TRUE(record.training_step->ceiling_share.has_value());
  }
}

TEST(PeerBenchmark, times_every_step_of_both) {
  const FakePython python("agrees");
  const std::vector<Record> records = measure(toy(), python, {eager, compile});
  EXPECT_THAT(records[0].training_step->time_ms.samples, SizeIs(14)) << "seven beside each peer";
  EXPECT_THAT(records[1].training_step->time_ms.samples, SizeIs(7));
  EXPECT_THAT(records[2].training_step->device_time_ms.samples, SizeIs(7));
  EXPECT_THAT(records[1].training_step->warmup_ms, SizeIs(1));
}

TEST(PeerBenchmark, alternates_rounds_that_begin_with_an_untimed_iteration) {
  const FakePython python("agrees");
  measure(toy(), python);
  std::vector<std::int64_t> runs;
  for (const nlohmann::json& request : python.requests()) {
    if (request["command"] == "run") runs.push_back(request["iterations"]);
  }
  EXPECT_THAT(runs, ElementsAre(1, /*round*/ 1, 1, /*round*/ 1, 1, /*round*/ 1, 2, /*round*/ 1, 1, /*round*/ 1, 2));
}

TEST(PeerBenchmark, keeps_what_a_speedup_needs) {
  const FakePython python("agrees");
  const std::vector<Record> records = measure(toy(), python);
  EXPECT_FALSE(peer_of(records[0]).ridgepoint_ms.has_value());
  EXPECT_THAT(peer_of(records[1]).ridgepoint_ms, Optional(Lt(1e6)));
  EXPECT_EQ(records[1].training_step->time_ms.median, 1e6);
  EXPECT_THAT(peer_of(records[1]).first_call_ms, Optional(12.5));
  EXPECT_THAT(records[1].memory_bytes.peak_allocated, Optional(1024));
  EXPECT_THAT(records[1].memory_bytes.peak_reserved, Optional(2048));
}

TEST(PeerBenchmark, asks_for_the_configuration_that_ridgepoint_runs) {
  const FakePython python("agrees");
  RunConfig config = toy(Mode::forward_backward);
  config.compile.precision = Precision::bf16;
  measure(config, python, {max_autotune});
  const nlohmann::json request = python.requests().at(0);
  EXPECT_EQ(request["command"], "build");
  EXPECT_EQ(request["mode"], "forward_backward");
  EXPECT_EQ(request["dtype"], "bf16");
  EXPECT_EQ(request["compile"], "max-autotune");
  EXPECT_EQ(request["device"], "cpu");
  EXPECT_EQ(request["attention"], "naive");
  EXPECT_EQ(request["model"]["context"], 8);
  EXPECT_EQ(request["model"]["layers"], 1);
}

TEST(PeerBenchmark, compares_recognised_attention_with_the_fused_one_of_the_peer) {
  const FakePython python("agrees");
  RunConfig config = toy(Mode::forward);
  config.compile.level = Compile::full;
  const std::vector<Record> records = measure(config, python);
  EXPECT_EQ(python.requests().at(0)["attention"], "sdpa");
  EXPECT_THAT(peer_of(records[1]).attention, Optional(std::string("sdpa")));
}

TEST(PeerBenchmark, a_peer_that_differs_is_an_error_that_names_the_worst_tensor) {
  const FakePython python("differs");
  const std::vector<Record> records = measure(toy(), python);
  EXPECT_EQ(records[0].status, RunStatus::ok);
  EXPECT_EQ(records[1].status, RunStatus::error);
  EXPECT_THAT(records[1].error.message,
              AllOf(HasSubstr("'grad.lm_head.weight'"), HasSubstr("0.75"), HasSubstr("beyond 0.0001")));
  EXPECT_THAT(peer_of(records[1]).worst_tensor, Optional(std::string("grad.lm_head.weight")));
  EXPECT_THAT(records[1].training_step->time_ms.samples, SizeIs(0)) << "nothing is timed";
}

TEST(PeerBenchmark, a_result_that_is_not_finite_agrees_with_nothing) {
  const FakePython python("not_finite");
  const std::vector<Record> records = measure(toy(), python);
  EXPECT_EQ(records[1].status, RunStatus::error);
  EXPECT_THAT(records[1].error.message, HasSubstr("'grad.lm_head.weight' is not finite"));
}

TEST(PeerBenchmark, a_peer_that_ends_is_an_error_with_its_last_words) {
  const FakePython python("ends");
  const std::vector<Record> records = measure(toy(), python);
  EXPECT_EQ(records[1].status, RunStatus::error);
  EXPECT_THAT(records[1].error.message,
              AllOf(HasSubstr("ended before it answered 'check'"), HasSubstr("a peer that ends")));
}

TEST(PeerBenchmark, an_answer_that_is_no_object_is_an_error) {
  const FakePython python("babbles");
  EXPECT_THAT(measure(toy(), python)[1].error.message, HasSubstr("answer to 'build' is no JSON object"));
}

TEST(PeerBenchmark, a_peer_without_room_says_what_ridgepoint_holds) {
  const FakePython python("out_of_memory");
  const Record record = measure(toy(), python)[1];
  EXPECT_EQ(record.status, RunStatus::oom);
  EXPECT_THAT(record.error.message,
              AllOf(HasSubstr("the card is full"), HasSubstr("beside Ridgepoint's program, which holds")));
}

TEST(PeerBenchmark, a_peer_that_cannot_run_is_unsupported_and_the_next_one_runs) {
  const FakePython python("unsupported");
  const std::vector<Record> records = measure(toy(), python, {compile, eager});
  EXPECT_EQ(records[1].status, RunStatus::unsupported);
  EXPECT_EQ(records[1].error.message, "no torch.compile here");
  EXPECT_EQ(records[2].status, RunStatus::unsupported);
}

TEST(PeerBenchmark, peers_of_a_failed_run_are_not_measured) {
  const FakePython python("agrees");
  RunConfig config = toy();
  config.weights = GivenWeights{"broken", [](const ParameterDeclaration&) -> HostTensor { throw Error("no weights"); }};
  const std::vector<Record> records = measure(config, python);
  EXPECT_EQ(records[0].error.message, "no weights");
  EXPECT_EQ(records[1].status, RunStatus::error);
  EXPECT_THAT(records[1].error.message, HasSubstr("Ridgepoint's run failed"));
  EXPECT_THAT(python.requests(), SizeIs(0));
}

TEST(PeerBenchmark, stops_with_its_watcher) {
  const FakePython python("agrees");
  PeerFiles files;
  CeilingCache ceilings;
  const auto stop = [](const StepProgress& at) { return at.stage != StepProgress::Stage::measuring_peer; };
  EXPECT_FALSE(measure_with_peers(toy(), {{python.path(), "9.8.7"}, {eager}}, files, ceilings, stop).has_value());
}

// With the PyTorch of this machine, where there is one.
class RealTorch : public ::testing::TestWithParam<std::tuple<Mode, Precision>> {};

TEST_P(RealTorch, agrees_with_ridgepoint) {
  Python python;
  try {
    python = find_python("");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  RunConfig config = toy(std::get<Mode>(GetParam()));
  config.compile.precision = std::get<Precision>(GetParam());
  config.steps = 2;
  PeerFiles files;
  CeilingCache ceilings;
  const std::vector<Record> records = measure_with_peers(config, {python, {eager}}, files, ceilings).value();
  EXPECT_EQ(records[1].status, RunStatus::ok) << records[1].error.message;
  EXPECT_THAT(peer_of(records[1]).difference, Optional(Lt(peer_tolerance(config.compile.precision))));
  EXPECT_THAT(records[1].training_step->time_ms.samples, SizeIs(2));
}

INSTANTIATE_TEST_SUITE_P(Modes, RealTorch,
                         ::testing::Combine(::testing::ValuesIn(kAllModes),
                                            ::testing::Values(Precision::fp32, Precision::bf16)),
                         [](const auto& instance) {
                           return std::string(name(std::get<Mode>(instance.param))) + "_" +
                                  std::string(name(std::get<Precision>(instance.param)));
                         });

}  // namespace
}  // namespace ridgepoint
