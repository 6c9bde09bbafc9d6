#include "predict/torch/torch_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "backends/null/null_device.h"
#include "core/files/file.h"
#include "memory/caching_allocator.h"
#include "models/toy_model.h"
#include "predict/torch/autograd/autograd.h"
#include "predict/torch/functions/functions.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "support/records/csv_rows.h"

namespace ridgepoint {
namespace {

constexpr double kMiB = 1048576;

RunConfig config_of(TransformerConfig model, std::int64_t batch, Mode mode = Mode::step,
                    Precision precision = Precision::fp32, PlanAs as = PlanAs::torch) {
  return {.device = "null",
          .workload = std::make_shared<Transformer>(std::move(model), batch),
          .compile = {.mode = mode, .precision = precision},
          .plan_as = as};
}

TransformerConfig preset(const char* name, std::int64_t context = 256,
                         AttentionVariant attention = AttentionVariant::composite) {
  TransformerConfig model = transformer_preset(name);
  model.context = context;
  model.attention = attention;
  return model;
}

double peak_mib(const RunConfig& config) {
  return static_cast<double>(forecast_torch(config, "H200 SXM").use.peak_allocated_bytes) / kMiB;
}

// torch.cuda.max_memory_allocated() of training steps on an H200: torch 2.11, eager, attention in plain ops
// (docs/performance.md and its history).
TEST(TorchForecast, is_within_half_a_percent_of_measured_peaks) {
  struct Measured {
    const char* model;
    std::int64_t batch, context;
    Precision precision;
    double mib;
  };
  using enum Precision;
  constexpr Measured kMeasured[] = {
      {"small", 4, 128, fp32, 2536},   {"small", 4, 256, fp32, 3064},   {"small", 4, 512, fp32, 5400},
      {"small", 4, 1024, fp32, 12866}, {"medium", 4, 256, fp32, 8699},  {"large", 4, 128, fp32, 19096},
      {"large", 4, 256, fp32, 19063},  {"large", 4, 512, fp32, 29556},  {"large", 4, 1024, fp32, 65644},
      {"xl", 4, 256, fp32, 38941},     {"2.7b", 4, 256, fp32, 65462},   {"small", 4, 256, bf16, 2845},
      {"medium", 4, 256, bf16, 8188},  {"large", 4, 256, bf16, 19066},  {"xl", 4, 256, bf16, 38970},
      {"2.7b", 4, 256, bf16, 65426},   {"small", 64, 256, bf16, 17920},
  };
  for (const Measured& row : kMeasured) {
    const double predicted = peak_mib(config_of(preset(row.model, row.context), row.batch, Mode::step, row.precision));
    EXPECT_NEAR(predicted / row.mib, 1, 0.005) << row.model << ' ' << row.context << ' ' << name(row.precision);
  }
}

// 222 rows of tools/pytorch/torch_memory.py measure: torch 2.11, eager, on an H200.
class TorchForecastOfGrid : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchForecastOfGrid, is_within_a_percent_of_measured_peaks) {
  std::vector<double> errors;
  for (const CsvRow& row : csv_rows(read_file(source_folder() / "tests/predict/torch/h200_peaks.csv", 1 << 20))) {
    if (row.at("model") != GetParam()) continue;
    SCOPED_TRACE(row.at("context") + ' ' + row.at("dtype") + ' ' + row.at("attention") + ' ' + row.at("mode"));
    const RunConfig config =
        config_of(preset(GetParam(), std::stoll(row.at("context")), attention_variant_from_name(row.at("attention"))),
                  std::stoll(row.at("batch")), mode_from_name(row.at("mode")), precision_from_name(row.at("dtype")));
    const MemoryForecast found = forecast_torch(config, "H200 SXM");
    const auto error = [&](std::size_t predicted, const char* column) {
      return std::abs(static_cast<double>(predicted) / std::stod(row.at(column)) - 1);
    };
    errors.push_back(error(found.use.peak_allocated_bytes, "peak_allocated"));
    EXPECT_LT(errors.back(), 0.01);
    EXPECT_LT(error(found.use.peak_reserved_bytes, "peak_reserved"), 0.03);
    if (row.at("before_backward").empty()) continue;
    EXPECT_LT(error(found.before_backward_bytes, "before_backward"), 0.01);
  }
  ASSERT_GT(errors.size(), 25U);
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, TorchForecastOfGrid, ::testing::Values("small", "medium", "large", "xl", "2.7b"));

// Another run of these steps in fp32, whose peaks are those of an optimizer without temporaries.
TEST(TorchForecast, is_within_half_a_percent_of_peaks_without_temporaries_of_the_optimizer) {
  const std::pair<const char*, double> measured[] = {
      {"small", 3063}, {"medium", 8699}, {"large", 18540}, {"xl", 35263}, {"2.7b", 52638}};
  for (const auto& [model, mib] : measured) {
    const RunConfig config = config_of(preset(model), 4, Mode::step, Precision::fp32, PlanAs::torch_fused);
    EXPECT_NEAR(peak_mib(config) / mib, 1, 0.005) << model;
  }
}

// Attention alone, batch 8, one head, fp32, not causal, on an H200 with torch 2.11: MiB allocated before backward, and
// at the peak of backward (docs/performance_history.md).
TEST(TorchForecast, accounts_for_one_call_of_attention_as_measured) {
  using torch::Functions;
  using torch::Kernels;
  using torch::Sizes;
  using torch::Tensor;
  using torch::Thread;
  struct Measured {
    bool library_softmax;
    std::int64_t width, sequence;
    double before_mib, peak_mib;
  };
  constexpr Measured kMeasured[] = {
      {false, 16, 1024, 163, 291},      {false, 16, 4096, 1610, 3660},     {false, 16, 16384, 24681, 57457},
      {true, 16, 1024, 98, 195},        {true, 16, 4096, 586, 2124},       {true, 16, 16384, 8296, 32880},
      {false, 64, 16384, 24801, 57601}, {true, 64, 16384, 8416, 33024},    {false, 128, 4096, 1680, 3744},
      {true, 128, 4096, 656, 2208},     {false, 128, 16384, 24961, 57793}, {true, 128, 16384, 8576, 33216},
  };
  for (const Measured& row : kMeasured) {
    SCOPED_TRACE(fmt::format("{} {} {}", row.library_softmax, row.width, row.sequence));
    const std::shared_ptr<Device> memory = make_null_device(open_device("reference"));
    CachingAllocator allocator(*memory);
    Kernels kernels(allocator, std::size_t{32} << 20);
    Functions f(kernels, std::nullopt);
    const Sizes sizes = {8, 1, row.sequence, row.width};
    const Tensor q = f.parameter(sizes);
    const Tensor k = f.parameter(sizes);
    const Tensor v = f.parameter(sizes);
    const Tensor gradient = kernels.copy(q);
    const auto attend = [&] {
      kernels.enter(MemoryCategory::activation, Thread::python);
      const Tensor scores = f.div_number(f.matmul(q, f.transpose(k, 2, 3)));
      if (row.library_softmax) return f.matmul(f.softmax(scores), v);
      Tensor difference = f.sub(scores, f.amax(scores));
      const Tensor exponentials = f.exp(difference);
      difference = {};
      return f.matmul(f.div(exponentials, f.sum(exponentials)), v);
    };
    const auto differentiate = [&](const Tensor& result) {
      kernels.enter(MemoryCategory::gradient, Thread::autograd);
      run_backward(result, kernels);
      for (const Tensor* x : {&q, &k, &v}) x->node->gradient = {};
    };
    differentiate(attend());
    const Tensor result = attend();
    EXPECT_NEAR(static_cast<double>(allocator.use().allocated_bytes) / kMiB / row.before_mib, 1, 0.01);
    allocator.reset_peak();
    differentiate(result);
    EXPECT_NEAR(static_cast<double>(allocator.use().peak_allocated_bytes) / kMiB / row.peak_mib, 1, 0.01);
  }
}

TEST(TorchForecast, grows_with_every_size) {
  const auto peak = [](std::int64_t layers, std::int64_t context, std::int64_t batch) {
    return peak_mib(config_of({"custom", 1000, context, 256, 1024, layers, 4}, batch));
  };
  EXPECT_LT(peak(2, 128, 4), peak(3, 128, 4));
  EXPECT_LT(peak(2, 128, 4), peak(2, 256, 4));
  EXPECT_LT(peak(2, 128, 4), peak(2, 128, 8));
}

TEST(TorchForecast, keeps_more_from_mode_to_mode) {
  double before = 0;
  for (const Mode mode : kAllModes) {
    const double peak = peak_mib(config_of(preset("small"), 4, mode));
    EXPECT_GT(peak, before) << name(mode);
    before = peak;
  }
}

TEST(TorchForecast, keeps_less_with_kernels_that_save_less) {
  const auto before_backward = [](AttentionVariant attention) {
    return forecast_torch(config_of(preset("small", 512, attention), 4), {}).before_backward_bytes;
  };
  EXPECT_GT(before_backward(AttentionVariant::composite), before_backward(AttentionVariant::softmax));
  EXPECT_GT(before_backward(AttentionVariant::softmax), before_backward(AttentionVariant::flash));
}

// AdamW's list of square roots is as large as the parameters.
TEST(TorchForecast, has_the_temporaries_of_adamw_unless_it_is_fused) {
  const TransformerConfig model = preset("2.7b");
  const double foreach = peak_mib(config_of(model, 4));
  const double fused = peak_mib(config_of(model, 4, Mode::step, Precision::fp32, PlanAs::torch_fused));
  EXPECT_NEAR((foreach - fused) / (4.0 * static_cast<double>(parameter_count(model)) / kMiB), 1, 0.05);
}

TEST(TorchForecast, has_the_workspaces_of_the_card) {
  const RunConfig config = config_of(preset("tiny"), 4);
  const auto workspace = [&](const char* card) {
    const MemoryForecast forecast = forecast_torch(config, card);
    for (const auto& [category, bytes] : forecast.phases.back().categories) {
      if (category == "workspace") return bytes;
    }
    return std::size_t{0};
  };
  EXPECT_EQ(workspace("H100 SXM"), 2 * (std::size_t{32} << 20));
  EXPECT_EQ(workspace("A100 80GB SXM"), 2U * 8519680);
}

TEST(TorchForecast, has_a_peak_for_each_phase) {
  const MemoryForecast step = forecast_torch(config_of(preset("small"), 4), {});
  ASSERT_EQ(step.phases.size(), 4U);
  EXPECT_EQ(step.phases[0].phase, Phase::forward);
  EXPECT_EQ(step.phases[3].phase, Phase::optimizer);
  EXPECT_EQ(step.phases[2].peak_bytes, step.use.peak_allocated_bytes);
  EXPECT_LT(step.before_backward_bytes, step.phases[1].peak_bytes);
  const MemoryForecast forward = forecast_torch(config_of(preset("small"), 4, Mode::forward), {});
  EXPECT_EQ(forward.phases.size(), 1U);
  EXPECT_EQ(forward.before_backward_bytes, 0U);
}

TEST(TorchForecast, runs_out_of_memory_where_a_limit_is_too_small) {
  const RunConfig config = config_of(preset("small"), 4);
  const std::size_t needed_bytes = forecast_torch(config, {}).use.peak_allocated_bytes;
  EXPECT_NO_THROW(forecast_torch(config, {}, needed_bytes + needed_bytes / 5));
  EXPECT_THROW(forecast_torch(config, {}, needed_bytes - 1), OutOfMemory);
}

TEST(TorchForecast, refuses_what_eager_pytorch_has_no_match_for) {
  const auto expect_refused = [](const RunConfig& config, const char* part) {
    EXPECT_THAT(error_of([&] { require_torch_has_it(config); }, ErrorKind::unsupported), HasSubstr(part));
  };
  RunConfig config = config_of(preset("tiny"), 1);
  EXPECT_NO_THROW(require_torch_has_it(config));
  config.compile.level = Compile::fuse;
  expect_refused(config, "does not compile");
  config.compile.level = Compile::off;
  config.compile.optimizer.kind = Optimizer::sgd;
  expect_refused(config, "leave out --optimizer sgd");
  config.compile.optimizer.kind = Optimizer::adamw;
  config.compile.accumulate = 2;
  constexpr const char* kPredicted =
      "--as ridgepoint predicts --master-weights, --frozen, --lora, --base-weights, --accumulate, --clip-norm, "
      "--no-decay, --offload and --z-loss";
  expect_refused(config, kPredicted);
  config.compile.accumulate = 1;
  config.compile.optimizer.no_decay = {"vectors"};  // two groups, each with temporaries of its own
  expect_refused(config, kPredicted);
  config.compile.optimizer.no_decay.clear();
  config.compile.checkpoint = Checkpoint::block;
  expect_refused(config, "checkpointing");
  config.compile.checkpoint = Checkpoint::none;
  config.allocator = AllocatorKind::arena;
  expect_refused(config, "caching allocator");
  expect_refused(config_of(preset("tiny", 256, AttentionVariant::weights), 1), "'weights'");
  RunConfig toy = config_of(preset("tiny"), 1);
  toy.workload = std::make_shared<ToyModel>();
  expect_refused(toy, "needs the Transformer");
}

}  // namespace
}  // namespace ridgepoint
