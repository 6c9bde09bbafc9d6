// The logits behind a text: those of a whole run, also where keys and values are kept.
#include "train/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/files/temporary_folder.h"
#include "interchange/huggingface/model_config.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/golden_families.h"

namespace ridgepoint::train {
namespace {

constexpr std::int64_t kContext = 40;  // more than the shortest program has

struct Model {
  TransformerConfig config;
  RunConfig run;
};

// A tiny model of a published family, with its weights.
Model published(std::string_view family, Compile level) {
  const TemporaryFolder folder;  // the weights stay open
  testing::write_golden_model(family, folder.path());
  Model model;
  model.config = read_model_config(folder.path()).config;
  const Architecture& made_of = model.config.architecture;
  model.config.context = made_of.positions == Positions::learned ? std::min(kContext, made_of.max_context) : kContext;
  model.run.workload = std::make_shared<Transformer>(model.config, 1);
  model.run.compile = {.mode = Mode::forward, .level = level};
  const auto weights = std::make_shared<ModelWeights>(folder / "model.safetensors", model.config);
  model.run.weights =
      GivenWeights{.source = "golden",
                   .read = [weights](const ParameterDeclaration& one) { return weights->read(one.name); },
                   .constants = weights->constants()};
  return model;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return largest / scale;
}

// The difference of logits behind a text that grows to more than the context, with kept keys and without; and the
// programs that are made for its tokens behind the second one, up to the context.
struct Outcome {
  double difference = 0;
  int late_programs = 0;
};
Outcome grow(const Model& model) {
  const std::int64_t most = model.config.context + 2;
  int planned = 0;
  const StepWatcher watch = [&](const StepProgress& progress) {
    planned += progress.stage == StepProgress::Stage::planning && progress.index == 0 ? 1 : 0;
    return true;
  };
  LanguageModel keeps(model.run, most, watch), whole(model.run, 0);
  Outcome outcome;
  std::vector<std::int64_t> tokens = {1, 5};
  int before = 0;
  for (std::int64_t i = 0; std::ssize(tokens) <= most; ++i) {
    const std::vector<float> logits = keeps.logits_after(tokens);
    outcome.difference = std::max(outcome.difference, largest_difference(logits, whole.logits_after(tokens)));
    if (i == 1) before = planned;
    if (std::ssize(tokens) == model.config.context) outcome.late_programs = planned - before;
    tokens.push_back((7 * i + 3) % model.config.vocab);
  }
  return outcome;
}

TEST(LanguageModel, has_the_same_logits_with_kept_keys_and_values_as_without) {
  int kept = 0;
  for (const std::string_view family : testing::golden_families()) {
    const Model model = published(family, Compile::off);
    if (!why_no_key_cache(model.config).empty()) continue;
    ++kept;
    const Outcome outcome = grow(model);
    EXPECT_LT(outcome.difference, 1e-5) << family;
    EXPECT_EQ(outcome.late_programs, 0) << family;
  }
  EXPECT_GT(kept, 60);
}

TEST(LanguageModel, has_the_same_logits_with_kept_keys_and_values_compiled) {
  for (const std::string_view family : {"gpt2", "llama3", "gemma2", "gpt_oss", "bloom"})
    EXPECT_LT(grow(published(family, Compile::full)).difference, 1e-5) << family;
}

TEST(Sampler, takes_no_token_by_logits_that_are_no_numbers) {
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature});
    EXPECT_EQ(sampler.choose(std::vector<float>{-INFINITY, 1, -INFINITY}), 1);
    for (const float wrong : {NAN, INFINITY}) EXPECT_THROW(sampler.choose(std::vector<float>{1, wrong, 2}), Error);
    EXPECT_THROW(sampler.choose(std::vector<float>{-INFINITY, -INFINITY}), Error);
  }
}

TEST(LanguageModel, computes_another_text_as_a_whole) {
  const Model model = published("llama3", Compile::off);
  LanguageModel keeps(model.run, kContext), whole(model.run, 0);
  const std::vector<std::vector<std::int64_t>> texts = {{1, 2, 3}, {1, 2, 3, 4}, {1, 2, 9, 4, 5}, {1, 2, 9, 4, 5, 6},
                                                        {1, 2, 9}, {1, 2, 9, 4}, {1, 2, 9, 4}};
  for (const std::vector<std::int64_t>& text : texts)
    EXPECT_LT(largest_difference(keeps.logits_after(text), whole.logits_after(text)), 1e-5) << text.size();
}

TEST(LanguageModel, rotates_a_text_as_one_of_its_length) {
  const std::vector<std::int64_t> text = {1, 5, 2, 9, 4, 6, 3, 8, 7, 2, 5, 1};
  for (const std::string_view family : {"llama_dynamic", "phi3_longrope"}) {
    Model model = published(family, Compile::off);
    LanguageModel padded(model.run, kContext);
    for (const std::int64_t length : {5, 8, 12}) {
      model.config.context = length;
      model.run.workload = std::make_shared<Transformer>(model.config, 1);
      LanguageModel exact(model.run, kContext);
      const auto tokens = std::span(text).first(static_cast<std::size_t>(length));
      EXPECT_LT(largest_difference(padded.logits_after(tokens), exact.logits_after(tokens)), 1e-5)
          << family << " " << length;
    }
  }
}

TEST(LanguageModel, keeps_no_keys_where_that_would_change_the_logits_and_says_why) {
  const auto why = [](std::string_view family) { return why_no_key_cache(published(family, Compile::off).config); };
  EXPECT_EQ(why("llama3"), "");
  EXPECT_EQ(why("mamba2"), "some of its layers keep another state than keys and values");
  EXPECT_EQ(why("phi3_longrope"), "its rotations depend on the length of the sequence");
  EXPECT_EQ(why("llama_dynamic"), "its rotations depend on the length of the sequence");
  EXPECT_EQ(why("deepseek_v32"), "its attention chooses or compresses keys");
  EXPECT_EQ(why("deepseek_v4"), "its attention chooses or compresses keys");
  EXPECT_EQ(why("llama4"), "its attention sees the keys of a chunk");
  EXPECT_EQ(why("ministral3"), "its queries grow with their position");
  for (const std::string_view family : {"mamba2", "qwen3_next", "phi3_longrope", "llama4"})
    EXPECT_EQ(grow(published(family, Compile::off)).difference, 0) << family;
  EXPECT_GT(grow(published("mamba2", Compile::off)).late_programs, 0) << "it needs one for more than 32 tokens";
}

TEST(LanguageModel, refuses_what_predicts_no_next_token) {
  for (const std::string_view family : {"bert", "vit"}) {
    const Model model = published(family, Compile::off);
    EXPECT_THROW(LanguageModel(model.run, kContext), Error) << family;
  }
}

}  // namespace
}  // namespace ridgepoint::train
