// What is trained, how it is compiled and over how many micro-batches and ranks it is spread do not matter to what a
// step computes: dense models and mixtures of experts, with and without their balancing loss.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "interchange/huggingface/model_config.h"
#include "models/transformer/transformer.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/golden_families.h"
#include "support/graphs/rank_threads.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using testing::RankThreads;

TransformerConfig model(std::string_view family) {
  TransformerConfig config = read_model_config(testing::golden_families_folder() / family).config;
  config.context = 8;
  config.attention = AttentionVariant::flash;
  return config;
}

// What of a model is trained.
struct Training {
  std::string name;
  CompileOptions options = {};
};

std::vector<Training> trainings() {
  return {{"all", {}}, {"a_layer", {.frozen = {"layers.0", "token_embeddings"}}}, {"lora", {.lora = LoraOptions{}}}};
}

struct TrainingConfigurations : ::testing::TestWithParam<std::tuple<const char*, Training>> {
  static Transformer workload() { return {model(std::get<0>(GetParam())), 1}; }

  static CompileOptions step(Compile level, std::int64_t micro_batches, bool keeps_gradients) {
    CompileOptions options = std::get<1>(GetParam()).options;
    options.mode = Mode::step;
    options.level = level;
    options.accumulate = micro_batches;
    options.keep.gradients = keeps_gradients;
    options.verify = true;
    // With the usual 1e-8, the first update of a gradient that is rounding alone is as large as any other.
    options.optimizer.hyperparameters = {{"epsilon", 1e-5}};
    return options;
  }

  static std::string text_of(const CompileOptions& options) {
    return fmt::format("{}, {} micro-batches, {} ranks, sharding {}, {}", name(options.level), options.accumulate,
                       options.parallel.data, name(options.parallel.shard),
                       options.keep.gradients ? "gradients are outputs" : "gradients are no outputs");
  }
};

// Data of `whole`, which has those of all ranks; parameters as every program of the test has them.
void write(Program& program, const Program& whole, std::int64_t rank, std::int64_t ranks) {
  for (const char* name : {"inputs", "targets"}) {
    const HostTensor all = whole.read_input(name);
    HostTensor rows({all.type.dtype, with_size(all.type.shape, 0, all.type.shape[0] / ranks)});
    std::memcpy(rows.data.data(), all.data.data() + static_cast<std::size_t>(rank) * rows.data.size(),
                rows.data.size());
    program.write_input(name, rows);
  }
}

void expect_equal(const Program& found, const Program& expected) {
  constexpr double kTolerance = 2e-5;
  for (const Output& output : found.graph().outputs()) {
    EXPECT_LT(testing::relative_error(found.read_output(output.name), expected.read_output(output.name)), kTolerance)
        << output.name;
  }
  for (const ParameterDeclaration& parameter : parameters_of(expected.graph())) {
    EXPECT_LT(testing::relative_error(found.read_input(parameter.name), expected.read_input(parameter.name)),
              10 * kTolerance)
        << parameter.name;
  }
}

// The values of the reference, whose micro-batches are those of all ranks.
Program reference(const Transformer& workload, CompileOptions options) {
  options.level = Compile::off;
  options.keep.gradients = true;
  options.accumulate *= options.parallel.data;
  options.parallel = {};
  Program program(workload.build(), open_device("reference"), {.compile = options});
  initialise(program, workload, 3);
  program.run();
  return program;
}

TEST_P(TrainingConfigurations, compute_what_the_reference_computes) {
  for (const std::int64_t micro_batches : {1, 2, 3}) {
    const Program expected = reference(workload(), step(Compile::off, micro_batches, true));
    for (const Compile level : kAllCompiles) {
      const CompileOptions options = step(level, micro_batches, level != Compile::full);
      SCOPED_TRACE(text_of(options));
      Program program(workload().build(), open_device("cpu"), {.compile = options});
      initialise(program, workload(), 3);
      program.run();
      expect_equal(program, expected);
    }
  }
}

TEST_P(TrainingConfigurations, compute_on_ranks_what_the_reference_computes) {
  constexpr std::int64_t kRanks = 2;
  for (const std::int64_t micro_batches : {1, 2}) {
    for (const Sharding shard : kAllShardings) {
      CompileOptions options = step(Compile::fuse, micro_batches, shard != Sharding::gradients);
      options.parallel = {.data = kRanks, .shard = shard};
      SCOPED_TRACE(text_of(options));
      const Program expected = reference(workload(), options);
      RankThreads(kRanks).run([&](std::size_t rank, const auto& others) {
        CompileOptions own = options;
        own.parallel.rank = static_cast<std::int64_t>(rank);
        Program program(workload().build(), open_device("cpu"), {.compile = own, .communicator = others});
        initialise(program, workload(), 3);
        write(program, expected, own.parallel.rank, kRanks);
        program.run();
        expect_equal(program, expected);
      });
    }
  }
}

// A described GPU has the kernels of the CUDA back end, which nothing here can run.
TEST_P(TrainingConfigurations, are_planned_for_a_described_gpu) {
  if (!can_describe_card(90)) GTEST_SKIP() << "this build has no CUDA back end";
  DeviceOptions h100;
  h100.card = describe_card(*find_datasheet("h100"));
  const std::shared_ptr<Device> device = open_device("null", h100);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const std::int64_t micro_batches : {1, 2}) {
      for (const bool keeps_gradients : {false, true}) {
        for (const Sharding shard : kAllShardings) {
          for (const std::int64_t ranks : {1, 4}) {
            if (ranks == 1 && shard != Sharding::none) continue;
            CompileOptions options = step(Compile::fuse, micro_batches, keeps_gradients);
            options.precision = precision;
            options.parallel = {.data = ranks, .shard = shard};
            SCOPED_TRACE(text_of(options));
            Program program(workload().build(), device, {.compile = options});
            EXPECT_NO_THROW(program.run());
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, TrainingConfigurations,
                         ::testing::Combine(::testing::Values("llama3", "mixtral", "mixtral_auxiliary", "qwen3_next"),
                                            ::testing::ValuesIn(trainings())),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), std::get<1>(test.param).name);
                         });

}  // namespace
}  // namespace ridgepoint
