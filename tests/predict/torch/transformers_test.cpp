// The families of docs/models.md as transformers runs them, against recordings of PyTorch on the CPU
// (tools/transformers_trace.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "interchange/huggingface/named_model.h"
#include "models/transformer.h"
#include "predict/torch/recording_allocator.h"
#include "predict/torch/torch_forecast.h"
#include "ridgepoint/error.h"
#include "support/program/build_paths.h"

namespace ridgepoint::torch {
namespace {

Architecture architecture_of(const std::string& family) {
  Architecture a{.family = family};
  if (family == "qwen2") a.projection_bias = true;
  if (family == "qwen3") a.projection_norm = ProjectionNorm::per_head;
  if (family == "olmo2") {
    a.placement = NormPlacement::after;
    a.projection_norm = ProjectionNorm::whole;
  }
  if (family == "gemma2") {
    a.placement = NormPlacement::both;
    a.norm_adds_one = true;
    a.activation = Activation::gelu_tanh;
    a.score_cap = 50;
    a.logit_cap = 30;
    a.embedding_scale = 5;
  }
  if (family == "gpt2") {
    a.norm = Norm::layer_norm;
    a.activation = Activation::gelu_tanh;
    a.gated = false;
    a.projection_bias = a.output_bias = a.feed_forward_bias = true;
    a.positions = Positions::learned;
  }
  return a;
}

Training training_of_family(const Recording& recording) {
  const nlohmann::json& row = recording.configuration;
  Architecture architecture = architecture_of(row["family"].get<std::string>());
  architecture.kv_heads = recording.size("kv_heads");
  architecture.head_size = recording.size("head_size");
  architecture.max_context = recording.size("max_context");
  architecture.tied_head = row["tied"].get<bool>();
  return {.model = {"recorded", recording.size("vocab"), recording.size("context"), recording.size("d_model"),
                    recording.size("d_ff"), recording.size("layers"), recording.size("heads"),
                    AttentionVariant::softmax, architecture},
          .batch = recording.size("batch"),
          .mode = Mode::step,
          .checkpoints = row["checkpoint"].get<bool>()};
}

class TorchTransformers : public ::testing::TestWithParam<const char*> {};

// The most bytes that are live at once, beside those that are from the start.
std::int64_t peak_of(const std::vector<std::int64_t>& events) {
  std::int64_t live = 0, peak = 0;
  for (const std::int64_t bytes : events) peak = std::max(peak, live += bytes);
  return peak;
}

// To the byte and in order. In backward the CPU's kernels have temporaries of their own, of grouped heads and of layer
// norms: OLMo 2 has neither, and of the others forward, loss and the peak of the step are compared.
TEST_P(TorchTransformers, allocates_and_frees_what_pytorch_does) {
  const std::string name = std::string(GetParam()) + ".txt";
  const Recording recording = read_recording(source_folder() / "tests/golden/transformers_memory" / name);
  RecordingAllocator allocator(MemoryCategory::data);
  run(training_of_family(recording), allocator);
  const std::vector<std::int64_t> events = comparable(allocator.last_phases(4));
  const auto forward = static_cast<std::ptrdiff_t>(allocator.last_phases(4).size() - allocator.last_phases(2).size());
  const std::vector<std::int64_t> recorded = comparable(recording.events);
  std::vector<std::int64_t> mine = allocator.last_phases(4);
  mine.resize(static_cast<std::size_t>(forward));
  mine = comparable(mine);
  ASSERT_GT(mine.size(), 70U);
  ASSERT_GT(recorded.size(), 2 * mine.size());
  EXPECT_EQ(mine, comparable({recorded.begin(), recorded.begin() + static_cast<std::ptrdiff_t>(mine.size())}));
  EXPECT_EQ(peak_of(events), peak_of(recorded));
  if (name.starts_with("olmo2")) {
    EXPECT_EQ(events, recorded);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TorchTransformers,
                         ::testing::Values("llama", "qwen2", "qwen3", "gemma2", "olmo2", "gpt2", "llama_checkpoint",
                                           "qwen2_checkpoint", "qwen3_checkpoint", "gemma2_checkpoint",
                                           "olmo2_checkpoint", "gpt2_checkpoint"));

// outputs = model(tokens, labels=tokens)
TEST(TorchTransformersPeak, has_the_logits_of_the_iteration_before_where_they_are_kept) {
  const Recording recording = read_recording(source_folder() / "tests/golden/transformers_memory/llama.txt");
  Training training = training_of_family(recording);
  training.mode = Mode::forward_backward;
  const auto peak = [&](bool keeps_output) {
    training.keeps_output = keeps_output;
    RecordingAllocator allocator;
    run(training, allocator);
    EXPECT_EQ(allocator.live_blocks(), 0U);
    return allocator.peak_bytes();
  };
  EXPECT_EQ(peak(true) - peak(false), 4 * training.batch * training.model.context * training.model.vocab);
}

RunConfig config_of(const TransformerConfig& model, ridgepoint::Checkpoint checkpoint = ridgepoint::Checkpoint::none) {
  RunConfig config;
  config.device = "null";
  config.workload = std::make_shared<Transformer>(model, 4);
  config.compile = {.mode = Mode::step, .precision = Precision::bf16, .checkpoint = checkpoint};
  config.plan_as = PlanAs::torch_fused;
  return config;
}

TransformerConfig known(const char* name, std::int64_t context, AttentionVariant attention = AttentionVariant::flash) {
  TransformerConfig model = named_model(name).config;
  model.context = context;
  model.attention = attention;
  return model;
}

std::size_t peak(const RunConfig& config) { return forecast_torch(config, "H200 SXM").use.peak_allocated_bytes; }

// transformers 5.17, torch 2.11, one H200, 4 x 2048 tokens, sdpa, AdamW(fused=True), bf16 autocast: 47.07 and 29.27 GB
// (10^9 bytes).
TEST(TorchTransformersPeak, is_within_half_a_percent_of_what_an_h200_measured) {
  const TransformerConfig model = known("llama-3.2-1b", 2048);
  EXPECT_NEAR(static_cast<double>(peak(config_of(model))) / 47.07e9, 1, 0.005);
  EXPECT_NEAR(static_cast<double>(peak(config_of(model, ridgepoint::Checkpoint::block))) / 29.27e9, 1, 0.005);
}

TEST(TorchTransformersPeak, exists_for_every_family_and_checkpoints_keep_less) {
  for (const char* name :
       {"gpt2", "llama-3.2-1b", "mistral-7b-v0.1", "mixtral-8x7b", "qwen2.5-0.5b", "qwen3-0.6b", "qwen1.5-moe-a2.7b",
        "qwen3-30b-a3b", "gemma-2-2b", "gemma-3-1b", "phi-3-mini-4k", "olmo-2-1b"}) {
    for (const AttentionVariant attention : {AttentionVariant::flash, AttentionVariant::softmax}) {
      SCOPED_TRACE(std::string(name) + ' ' + std::string(ridgepoint::name(attention)));
      TransformerConfig model = known(name, 1024, attention);
      model.layers = 4;
      const MemoryForecast kept = forecast_torch(config_of(model), {});
      EXPECT_GT(kept.use.peak_allocated_bytes, 12 * static_cast<std::size_t>(parameter_count(model)));
      const MemoryForecast again = forecast_torch(config_of(model, ridgepoint::Checkpoint::block), {});
      EXPECT_LT(again.before_backward_bytes, kept.before_backward_bytes);
    }
  }
}

// Scores of a layer are live at once in eager attention; sdpa keeps none.
TEST(TorchTransformersPeak, grows_with_the_square_of_the_sequence_in_eager_attention_alone) {
  const auto before_backward = [](std::int64_t context, AttentionVariant attention) {
    return static_cast<double>(
        forecast_torch(config_of(known("qwen2.5-0.5b", context, attention)), {}).before_backward_bytes);
  };
  const auto ratio = [&](AttentionVariant attention) {
    return before_backward(4096, attention) / before_backward(2048, attention);
  };
  EXPECT_LT(ratio(AttentionVariant::flash), 2);
  EXPECT_GT(ratio(AttentionVariant::softmax), 2.5);
}

// sdpa has kernels for fewer heads of keys and values in bf16 and fp16 alone, and for masks if keys are repeated.
TEST(TorchTransformersPeak, knows_which_kernel_sdpa_takes) {
  RunConfig fp32 = config_of(known("qwen2.5-0.5b", 4096));
  fp32.compile.precision = Precision::fp32;
  TransformerConfig equal_heads = known("qwen2.5-0.5b", 4096);
  equal_heads.architecture.kv_heads = equal_heads.heads;
  RunConfig fp32_of_equal_heads = config_of(equal_heads);
  fp32_of_equal_heads.compile.precision = Precision::fp32;
  EXPECT_GT(peak(fp32), 2 * peak(fp32_of_equal_heads));

  TransformerConfig window = known("mistral-7b-v0.1", 2048);
  window.layers = 2;
  window.architecture.window = 2049;
  const std::size_t without_mask = forecast_torch(config_of(window), {}).before_backward_bytes;
  window.architecture.window = 2048;
  EXPECT_GT(forecast_torch(config_of(window), {}).before_backward_bytes, without_mask);
}

TEST(TorchTransformersPeak, is_refused_for_what_is_not_modelled) {
  const auto expect_refused = [](const RunConfig& config, const char* part) {
    try {
      require_torch_has_it(config);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_THAT(error.what(), testing::HasSubstr(part));
    }
  };
  expect_refused(config_of(known("gpt2", 64), ridgepoint::Checkpoint::selective),
                 "transformers checkpoints each layer");
  TransformerConfig model = known("mixtral-8x7b", 64);
  model.architecture.experts.auxiliary_loss = 0.1;
  expect_refused(config_of(model), "output_router_logits=false");
  model = known("llama-3.2-1b", 64);
  model.architecture.head_size = 36;
  expect_refused(config_of(model), "give --attention softmax");
  model.attention = AttentionVariant::softmax;
  EXPECT_NO_THROW(require_torch_has_it(config_of(model)));
}

}  // namespace
}  // namespace ridgepoint::torch
