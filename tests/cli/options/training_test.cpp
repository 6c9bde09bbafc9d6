// The options of how a step trains, and what is refused.
#include "cli/options/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "ridgepoint/core/error.h"
#include "run/session/session.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint::cli {
namespace {

std::vector<RunConfig> expand_training(std::vector<std::string> arguments) {
  RunOptions options;
  CLI::App app;
  options.add_to(app);
  std::ranges::reverse(arguments);
  app.parse(std::move(arguments));
  return options.expand();
}

void expect_training_refused(const std::vector<std::string>& arguments, const std::string& why) {
  EXPECT_THAT(error_of([&] { expand_training(arguments); }), HasSubstr(why));
}

TEST(TrainingOptions, default_to_adamw_with_master_weights) {
  const CompileOptions compile = expand_training({})[0].compile;
  EXPECT_EQ(compile.optimizer.kind, Optimizer::adamw);
  EXPECT_EQ(compile.optimizer.find("weight_decay"), 0.01);
  EXPECT_TRUE(compile.master_weights);
  EXPECT_TRUE(compile.frozen.empty());
  EXPECT_FALSE(compile.lora);
  EXPECT_EQ(compile.accumulate, 1);
  EXPECT_TRUE(compile.optimizer.no_decay.empty());
  EXPECT_FALSE(compile.clip_norm);
  EXPECT_EQ(compile.z_loss, 0);
}

TEST(TrainingOptions, clip_by_no_norm_where_it_is_0) {
  const std::vector<RunConfig> configs = expand_training({"--clip-norm", "0,2"});
  EXPECT_EQ(configs[0].compile.clip_norm, std::nullopt);
  EXPECT_EQ(configs[1].compile.clip_norm, 2);
}

TEST(TrainingOptions, have_every_optimizer_as_it_comes) {
  for (const Optimizer optimizer : kAllOptimizers) {
    const Record record =
        describe_run(expand_training({"--optimizer", std::string(name(optimizer))})[0], Experiment::bench);
    EXPECT_EQ(record.optimizer, optimizer);
    EXPECT_EQ(record.weight_decay, OptimizerOptions{.kind = optimizer}.find("weight_decay"));
    EXPECT_EQ(record.momentum, OptimizerOptions{.kind = optimizer}.find("momentum"));
  }
}

TEST(TrainingOptions, reach_the_configuration_and_its_record) {
  const std::vector<RunConfig> configs = expand_training({"--optimizer",      "sgd",
                                                          "--momentum",       "0,0.9",
                                                          "--weight-decay",   "1e-2",
                                                          "--accumulate",     "4",
                                                          "--dtype",          "bf16",
                                                          "--master-weights", "off",
                                                          "--frozen",         "token_embeddings,ln1",
                                                          "--lora",           "r=4,targets=w1,w3",
                                                          "--no-decay",       "vectors,lora_B",
                                                          "--clip-norm",      "1.5",
                                                          "--z-loss",         "1e-4"});
  ASSERT_EQ(configs.size(), 2U);
  const Record record = describe_run(configs[1], Experiment::bench);
  EXPECT_EQ(record.optimizer, Optimizer::sgd);
  EXPECT_EQ(record.momentum, 0.9);
  EXPECT_EQ(record.weight_decay, 0.01);
  EXPECT_FALSE(record.master_weights);
  EXPECT_EQ(record.accumulate, 4);
  EXPECT_THAT(record.frozen, ElementsAre("token_embeddings", "ln1"));
  EXPECT_EQ(record.lora, "r=4,alpha=4,targets=w1,w3");
  EXPECT_THAT(record.no_decay, ElementsAre("vectors", "lora_B"));
  EXPECT_EQ(record.clip_norm, 1.5);
  EXPECT_EQ(record.z_loss, 1e-4);
  EXPECT_EQ(configs[1].compile.clip_norm, 1.5);
  EXPECT_EQ(configs[1].compile.z_loss, 1e-4);
  const std::int64_t adapters = 2 * 2 * 4 * (128 + 384);  // of two layers of the preset tiny
  EXPECT_EQ(record.trainable_parameters, adapters);
  EXPECT_EQ(record.model.parameters, 2986624 + adapters);
  EXPECT_EQ(record_from_json(to_json(record)).trainable_parameters, adapters);
}

TEST(TrainingOptions, count_what_is_frozen_as_not_trainable) {
  const Record record = describe_run(expand_training({"--frozen", "token_embeddings"})[0], Experiment::bench);
  EXPECT_EQ(record.model.parameters, 2986624);
  EXPECT_EQ(record.trainable_parameters, 2986624 - 10000 * 128);
}

TEST(TrainingOptions, count_the_parameters_of_indexers_as_not_trainable) {
  const std::string model = source_folder() / "tests/golden/families/glm_moe_dsa";
  const Record record = describe_run(expand_training({"--model", model})[0], Experiment::bench);
  // Of one layer of two: queries, keys with their norm, and weights of heads.
  const std::int64_t indexer = 6 * 7 * 11 + 7 * 24 + 2 * 7 + 6 * 24;
  EXPECT_EQ(record.trainable_parameters, record.model.parameters - indexer);
}

std::int64_t trainable(const std::vector<std::string>& arguments) {
  return *describe_run(expand_training(arguments)[0], Experiment::bench).trainable_parameters;
}

// PEFT adapts the packed weight as one layer: A [r, in] and B [r, all rows].
TEST(TrainingOptions, take_the_names_of_layers_in_the_files_of_a_family) {
  constexpr std::int64_t kRank = 16;
  EXPECT_EQ(trainable({"--model", "phi-3-mini-4k", "--layers", "2", "--lora", "r=16,targets=qkv_proj,gate_up_proj"}),
            2 * kRank * (3072 + 3 * 3072 + 3072 + 2 * 8192));
  EXPECT_EQ(trainable({"--model", "gpt2", "--layers", "2", "--lora", "r=16,targets=c_attn"}),
            2 * kRank * (768 + 3 * 768));
  EXPECT_EQ(trainable({"--model", "gpt2", "--layers", "2", "--lora", "r=16,targets=c_proj"}),
            2 * kRank * (768 + 768 + 3072 + 768))
      << "of attention and of the feed-forward network";
  EXPECT_EQ(trainable({"--model", "llama-3.2-1b", "--layers", "2", "--lora", "r=16,targets=q_proj,o_proj,up_proj"}),
            2 * kRank * (2 * (2048 + 2048) + 2048 + 8192));
  EXPECT_EQ(trainable({"--lora", "r=16,targets=mlp"}), 2 * 3 * kRank * (128 + 384)) << "a preset is a Llama";
}

TEST(TrainingOptions, are_refused_with_a_reason) {
  expect_training_refused({"--optimizer", "sgdm"}, "did you mean 'sgd'?");
  expect_training_refused({"--momentum", "0.9"}, "--momentum belongs to sgd");
  expect_training_refused({"--optimizer", "sgd", "--momentum", "1"}, "'1' is out of range; the momentum is at least 0");
  expect_training_refused({"--optimizer", "sgd", "--momentum", "-0.1"}, "out of range");
  expect_training_refused({"--optimizer", "sgd", "--momentum", "much"}, "'much' is not a number");
  expect_training_refused({"--weight-decay", "-1"}, "the weight decay is at least 0");
  expect_training_refused({"--master-weights", "off"}, "add --dtype bf16 or fp8 instead of fp32");
  expect_training_refused({"--accumulate", "0"}, "--accumulate");
  expect_training_refused({"--accumulate", "2", "--mode", "forward"}, "--mode forward has none");
  expect_training_refused({"--frozen", "token_embedding"},
                          "--frozen: no parameter matches 'token_embedding'; did you mean");
  expect_training_refused({"--frozen", "*"}, "--frozen: every parameter is frozen");
  expect_training_refused({"--no-decay", "vector"}, "--no-decay: no parameter matches 'vector'");
  expect_training_refused({"--clip-norm", "-1"}, "the norm is greater than 0, or 0 for none");
  expect_training_refused({"--z-loss", "-1"}, "the factor is at least 0");
  expect_training_refused({"--lora", "r=0"}, "--lora: r: 0 is out of range; the rank is at least 1");
  expect_training_refused({"--lora", "targets=o_prj"}, "did you mean 'o_proj'?");
  expect_training_refused({"--lora", "targets=qkv_proj"}, "--lora: no linear layer matches 'qkv_proj'");
  expect_training_refused({"--model", "gpt2", "--layers", "1", "--lora", "targets=c_attn,q_proj"},
                          "'layers.0.attn.c_attn' and 'layers.0.attn.q_proj' both change layers.0.attn.q_proj");
  expect_training_refused({"--lora", "targets=k_prj"},
                          "--lora: no linear layer matches 'k_prj'; did you mean 'k_proj'?");
}

}  // namespace
}  // namespace ridgepoint::cli
