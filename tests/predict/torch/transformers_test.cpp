// The families of docs/models.md as transformers runs them, against recordings of PyTorch on the CPU
// (tools/pytorch/transformers_trace.py).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/model_config.h"
#include "interchange/huggingface/named_model.h"
#include "models/transformer/transformer.h"
#include "predict/torch/recording_allocator.h"
#include "predict/torch/torch_forecast.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
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
  if (family == "bert") {
    a.norm = Norm::layer_norm;
    a.placement = NormPlacement::of_sums;
    a.gated = a.is_causal = a.final_norm = false;
    a.activation = Activation::gelu;
    a.projection_bias = a.output_bias = a.feed_forward_bias = a.head_bias = true;
    a.positions = Positions::learned;
    a.token_types = 2;
    a.embedding_norm = a.head_transform = true;
  }
  if (family == "gptj" || family == "gpt_neo") {
    a.norm = Norm::layer_norm;
    a.gated = false;
    a.activation = Activation::gelu_tanh;
    a.feed_forward_bias = true;
    a.rotary.share = 0.5;
  }
  if (family == "gptj") {
    a.block = BlockOrder::side_by_side_one_norm;
    a.head_bias = true;
  }
  if (family == "gpt_neo") {
    a.output_bias = true;
    a.positions = Positions::learned;
  }
  if (family == "gpt_oss") {
    a.sinks = a.projection_bias = a.output_bias = true;
  }
  if (family == "gemma4_text") {
    a.placement = NormPlacement::both;
    a.projection_norm = ProjectionNorm::per_head;
    a.activation = Activation::gelu_tanh;
    a.value_norm = a.separate_rotary = a.layer_scalars = a.wide_without_keys = true;
    a.embedding_scale = 5;
    a.logit_cap = 30;
    a.window = 4;
    a.window_layers = {true, false};
    a.full_heads = {.size = 12, .kv_heads = 1};
    a.layers_without_keys = 2;
    a.per_layer = {.width = 5, .vocab = 50};
  }
  if (family == "gpt2") {
    a.norm = Norm::layer_norm;
    a.activation = Activation::gelu_tanh;
    a.gated = false;
    a.projection_bias = a.output_bias = a.feed_forward_bias = true;
    a.positions = Positions::learned;
  }
  if (family == "cohere") {
    a.norm = Norm::layer_norm;
    a.norm_biases = false;
    a.block = BlockOrder::side_by_side_one_norm;
    a.logit_scale = 0.0625;
  }
  if (family == "glm") a.rotary.share = 0.5;
  if (family == "granite") {
    a.embedding_scale = 5;
    a.residual_scale = 0.3;
    a.logit_scale = 0.125;
  }
  if (family == "hunyuan_v1_dense") a.projection_norm = ProjectionNorm::rotated;
  if (family == "phi" || family == "gpt_neox" || family == "opt") {
    a.norm = Norm::layer_norm;
    a.gated = false;
    a.projection_bias = a.output_bias = a.feed_forward_bias = true;
    a.activation = family == "phi" ? Activation::gelu_tanh : family == "opt" ? Activation::relu : Activation::gelu;
    a.rotary.share = 0.5;
  }
  if (family == "phi") {
    a.block = BlockOrder::side_by_side_one_norm;
    a.head_bias = true;
  }
  if (family == "gpt_neox") a.block = BlockOrder::side_by_side;
  if (family == "opt") {
    a.positions = Positions::learned;
    a.unused_positions = 2;
  }
  if (family == "olmo") {
    a.norm = Norm::layer_norm;
    a.norm_weights = a.norm_biases = false;
    a.projection_limit = 8;
  }
  return a;
}

Training training_of_family(const Recording& recording) {
  const nlohmann::json& row = recording.configuration;
  std::string family = row["family"].get<std::string>();
  if (family == "hunyuan") family = "hunyuan_v1_dense";
  if (family == "gemma4") family = "gemma4_text";
  Architecture architecture = architecture_of(family);
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
  const std::vector<std::int64_t> theirs =
      comparable({recorded.begin(), recorded.begin() + static_cast<std::ptrdiff_t>(mine.size())});
  const auto first = std::ranges::mismatch(mine, theirs).in1 - mine.begin();
  const auto from = [first](const std::vector<std::int64_t>& all) {  // Google Test shows no more
    return std::vector(all.begin() + std::max<std::ptrdiff_t>(first - 8, 0), all.end());
  };
  EXPECT_EQ(from(mine), from(theirs)) << "event " << first;
  if (recording.configuration["torch"].get<std::string>().starts_with("1.")) return;  // has other temporaries
  EXPECT_EQ(peak_of(events), peak_of(recorded));
  if (name.starts_with("olmo2")) {
    EXPECT_EQ(events, recorded);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TorchTransformers,
                         ::testing::Values("llama", "qwen2", "qwen3", "gemma2", "olmo2", "gpt2", "llama_checkpoint",
                                           "qwen2_checkpoint", "qwen3_checkpoint", "gemma2_checkpoint",
                                           "olmo2_checkpoint", "gpt2_checkpoint", "bert", "cohere", "gemma4", "glm",
                                           "gpt_neo", "gpt_oss", "gptj", "granite", "hunyuan", "phi", "gpt_neox",
                                           "olmo", "opt"));

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
  return {.device = "null",
          .workload = std::make_shared<Transformer>(model, 4),
          .compile = {.mode = Mode::step, .precision = Precision::bf16, .checkpoint = checkpoint},
          .plan_as = PlanAs::torch_fused};
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

// The golden models of the families, without the load-balancing loss, at heads that sdpa takes.
std::vector<TransformerConfig> golden_models(bool are_known) {
  std::vector<TransformerConfig> models;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "tests/golden/families")) {
    TransformerConfig model = read_model_config(entry.path()).config;
    if (family_of(model).code.is_unknown == are_known) continue;
    model.name = entry.path().filename().string();
    model.architecture.experts.auxiliary_loss = 0;
    model.architecture.head_size = 16;
    model.context = 10;
    models.push_back(std::move(model));
  }
  return models;
}

TEST(TorchTransformersPeak, exists_for_every_family_and_checkpoints_keep_less) {
  std::set<std::string> seen;
  for (TransformerConfig model : golden_models(true)) {
    for (const AttentionVariant attention : {AttentionVariant::flash, AttentionVariant::softmax}) {
      if (attention == AttentionVariant::flash && family_of(model).code.lacks_sdpa) continue;
      SCOPED_TRACE(model.name + ' ' + std::string(ridgepoint::name(attention)));
      model.attention = attention;
      if (model.name == "stablelm_norms" || model.name == "gemma4_experts") continue;  // see below
      seen.insert(model.architecture.family);
      const MemoryForecast kept = forecast_torch(config_of(model), {});
      EXPECT_GT(kept.use.peak_allocated_bytes, 12 * static_cast<std::size_t>(parameter_count(model)));
      if (model.architecture.layers_without_keys > 0) continue;
      const MemoryForecast again = forecast_torch(config_of(model, ridgepoint::Checkpoint::block), {});
      EXPECT_LT(again.before_backward_bytes, kept.before_backward_bytes);
    }
  }
  for (const Family* family : families())
    EXPECT_EQ(seen.contains(std::string(family->model_type)), !family->code.is_unknown) << family->model_type;
}

// "`plan --as torch` knows `bloom`, `cohere`, ... and `vit`" of docs/models.md.
TEST(TorchTransformersPeak, exists_for_the_families_that_the_documentation_names) {
  const std::string page = read_file(source_folder() / "docs/models.md", 1 << 20);
  const std::size_t begin = page.find("`plan --as torch` knows ");
  ASSERT_NE(begin, std::string::npos);
  const std::string sentence = page.substr(begin, page.find('.', begin) - begin);
  for (const Family* family : families()) {
    EXPECT_EQ(sentence.find(fmt::format("`{}`", family->model_type)) != std::string::npos, !family->code.is_unknown)
        << family->model_type;
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
    EXPECT_THAT(error_of([&] { require_torch_has_it(config); }, ErrorKind::unsupported), HasSubstr(part));
  };
  expect_refused(config_of(known("gpt2", 64), ridgepoint::Checkpoint::selective),
                 "transformers checkpoints each layer");
  TransformerConfig model = known("mixtral-8x7b", 64);
  model.architecture.experts.auxiliary_loss = 0.1;
  expect_refused(config_of(model), "output_router_logits=false");
  for (const TransformerConfig& one : golden_models(false))
    expect_refused(config_of(one), "what the code of the family allocates in transformers is not modelled");
  for (const TransformerConfig& one : golden_models(true)) {
    if (one.name == "stablelm_norms") expect_refused(config_of(one), "its norms of each head");
    if (one.name == "gemma4_experts") expect_refused(config_of(one), "its kind of experts");
    if (one.name == "gemma4")
      expect_refused(config_of(one, ridgepoint::Checkpoint::block), "layers that share keys and values");
  }
  model = known("mixtral-8x7b", 64);
  model.architecture.experts.rules.weighs_inputs = true;
  expect_refused(config_of(model), "its kind of experts");
  model = known("gpt-oss-20b", 64);
  expect_refused(config_of(model), "no scaled_dot_product_attention for the family gpt_oss; give --attention softmax");
  model = known("llama-3.2-1b", 64);
  model.architecture.head_size = 36;
  expect_refused(config_of(model), "give --attention softmax");
  model.attention = AttentionVariant::softmax;
  EXPECT_NO_THROW(require_torch_has_it(config_of(model)));
}

}  // namespace
}  // namespace ridgepoint::torch
