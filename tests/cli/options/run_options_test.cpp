#include "cli/options/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "models/toy_model.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint::cli {
namespace {

std::vector<RunConfig> expand(std::vector<std::string> arguments) {
  RunOptions options;
  CLI::App app;
  options.add_to(app);
  std::ranges::reverse(arguments);
  app.parse(std::move(arguments));
  return options.expand();
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& why) {
  EXPECT_THAT(error_of([&] { expand(arguments); }), HasSubstr(why));
}

TEST(RunOptions, default_to_one_step_of_tiny) {
  const std::vector<RunConfig> configs = expand({});
  ASSERT_EQ(configs.size(), 1U);
  EXPECT_EQ(configs[0].device, default_device_name());
  EXPECT_EQ(configs[0].workload->describe().model.name, "tiny");
  EXPECT_EQ(configs[0].workload->describe().context, 256);
  EXPECT_EQ(configs[0].workload->describe().batch, 4);
  EXPECT_EQ(configs[0].compile.mode, Mode::step);
  EXPECT_EQ(configs[0].warmup, 5);
  EXPECT_EQ(configs[0].steps, 10);
  EXPECT_EQ(configs[0].device_options.memory_limit_bytes, std::nullopt);
}

TEST(RunOptions, run_a_model_of_a_config_as_people_do_where_they_do_not_say) {
  const RunConfig preset = expand({"--model", "small"})[0], model = expand({"--model", "llama-3.2-1b"})[0],
                  short_context = expand({"--model", "gpt2"})[0],
                  given = expand({"--model", "gpt2", "--dtype", "fp32"})[0];
  EXPECT_EQ(preset.compile.precision, Precision::fp32);
  EXPECT_EQ(preset.compile.level, Compile::off);
  EXPECT_EQ(model.compile.precision, Precision::bf16);
  EXPECT_EQ(model.compile.level, Compile::full);
  const WorkloadDescription workload = model.workload->describe();
  EXPECT_EQ(workload.attention, AttentionVariant::flash);
  EXPECT_EQ(workload.batch, 1);
  EXPECT_EQ(workload.context, 2048);
  EXPECT_EQ(short_context.workload->describe().context, 1024) << "the model has no more positions";
  EXPECT_EQ(given.compile.precision, Precision::fp32);
}

TEST(RunOptions, have_no_more_tokens_than_a_model_has_positions_and_all_of_an_image) {
  const auto context_of = [](std::vector<std::string> arguments) {
    return expand(std::move(arguments))[0].workload->describe().context;
  };
  EXPECT_EQ(context_of({"--model", "bert-base"}), 512);
  EXPECT_EQ(context_of({"--model", "vit-base-patch16-224"}), 197);
  EXPECT_EQ(context_of({"--model", "vit-base-patch16-224", "--config-override", "image_size=1024"}), 4097);
  RunOptions as_presets;
  as_presets.use_defaults_of_presets();
  CLI::App app;
  as_presets.add_to(app);
  app.parse(std::vector<std::string>{"vit-base-patch16-224", "--model"});
  EXPECT_EQ(as_presets.expand()[0].workload->describe().context, 197) << "not the 256 of presets";
}

TEST(RunOptions, take_the_first_layers_of_a_model_whose_last_ones_share_keys) {
  const TransformerConfig two = *expand({"--model", "gemma-3n-e2b", "--layers", "2"})[0].workload->transformer();
  EXPECT_EQ(two.architecture.layers_without_keys, 0);
  EXPECT_EQ(two.architecture.sparsity.size(), 2U);
  const TransformerConfig more = *expand({"--model", "gemma-4-e2b", "--layers", "20"})[0].workload->transformer();
  EXPECT_EQ(more.architecture.layers_without_keys, 5) << "of 35 layers 15 have keys";
}

TEST(RunOptions, have_a_usual_width_of_the_feed_forward_network) {
  const auto d_ff = [](const std::string& d_model) {
    return expand({"--layers", "1", "--d-model", d_model, "--heads", "1"})[0].workload->describe().model.d_ff;
  };
  EXPECT_EQ(d_ff("512"), 1344);
  EXPECT_EQ(d_ff("16"), 64);
  EXPECT_EQ(d_ff("4096"), 10944);
}

TEST(RunOptions, plan_for_a_card_that_is_named) {
  const RunConfig config = expand({"--card", "4090"})[0];
  EXPECT_EQ(config.device, "null");
  EXPECT_EQ(config.device_options.card->name, "RTX 4090");
  EXPECT_GT(*config.device_options.memory_limit_bytes, std::size_t{22} << 30);
  expect_refused({"--card", "h100", "--device", "cpu"}, "--card plans for a card, and --device cpu runs");
  expect_refused({"--card", "t4"},
                 "no kernel of this engine runs on T4, of compute capability 7.5; give --device null "
                 "--memory-limit '14.6 GiB' for");
  expect_refused({"--card", "h1000"}, "did you mean 'H100");
}

TEST(RunOptions, vary_the_last_option_fastest) {
  std::vector<std::string> rows;
  for (const RunConfig& c : expand({"--mode", "forward,step", "--batch", "1:2", "--model", "tiny,small"})) {
    const WorkloadDescription workload = c.workload->describe();
    rows.push_back(workload.model.name + " " + std::to_string(workload.batch) + " " +
                   std::string(name(c.compile.mode)));
  }
  EXPECT_THAT(rows, ElementsAre("tiny 1 forward", "tiny 1 step", "tiny 2 forward", "tiny 2 step", "small 1 forward",
                                "small 1 step", "small 2 forward", "small 2 step"));
}

TEST(RunOptions, take_words_and_numbers_for_the_chunks_of_the_loss) {
  std::vector<std::optional<std::int64_t>> rows;
  for (const RunConfig& config : expand({"--loss-chunk", "auto,off,64:256:*2"}))
    rows.push_back(config.compile.loss_chunk_rows);
  EXPECT_THAT(rows, ElementsAre(std::nullopt, 0, 64, 128, 256));
  EXPECT_EQ(expand({})[0].compile.loss_chunk_rows, std::nullopt);
  expect_refused({"--loss-chunk", "0"}, "--loss-chunk");
  expect_refused({"--loss-chunk", "none"}, "--loss-chunk");
}

TEST(RunOptions, build_a_model_from_sizes) {
  const auto model =
      expand({"--layers", "4", "--d-model", "512", "--d-ff", "1344", "--heads", "16"})[0].workload->describe().model;
  EXPECT_EQ(model.name, "custom");
  EXPECT_EQ(model.vocab, 10000);
  EXPECT_EQ(model.parameters, 22'696'448);
}

TEST(RunOptions, let_sizes_replace_those_of_a_preset) {
  const auto model = expand({"--model", "small", "--layers", "2"})[0].workload->describe().model;
  EXPECT_EQ(model.name, "custom");
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.d_model, 768);
  EXPECT_EQ(expand({"--model", "small", "--vocab", "10000"})[0].workload->describe().model.name, "small");
}

TEST(RunOptions, say_which_size_is_missing) { expect_refused({"--layers", "4", "--heads", "4"}, "--d-model"); }

TEST(RunOptions, read_memory_limits_with_units) {
  EXPECT_EQ(expand({"--memory-limit", "20GiB"})[0].device_options.memory_limit_bytes, std::size_t{20} << 30);
}

TEST(RunOptions, name_the_option_that_is_wrong) {
  expect_refused({"--batch", "0"}, "--batch: '0' is too small");
  expect_refused({"--steps", "-1"}, "--steps: '-1' is too small");
  expect_refused({"--context", "many"}, "--context: 'many' is not a whole number");
  expect_refused({"--memory-limit", "2 apples"}, "--memory-limit: '2 apples' is not a size");
}

TEST(RunOptions, say_the_nearest_of_an_unknown_name) {
  expect_refused({"--model", "smal"}, "did you mean 'small'");
  expect_refused({"--mode", "forwards"}, "did you mean 'forward'");
  expect_refused({"--attention", "flsh"}, "did you mean 'flash'");
  expect_refused({"--compile", "fused"}, "did you mean 'fuse'");
  expect_refused({"--device", "cpuu"}, "did you mean 'cpu'");
}

TEST(RunOptions, take_fp8_with_and_without_master_weights) {
  const RunConfig config = expand({"--dtype", "fp8", "--master-weights", "off"})[0];
  EXPECT_EQ(config.compile.precision, Precision::fp8);
  EXPECT_FALSE(config.compile.master_weights);
}

TEST(RunOptions, take_cards_by_number_whether_they_are_here_or_not) {
  EXPECT_EQ(expand({"--device", "cuda:1"})[0].device, "cuda:1");
  expect_refused({"--device", "cuda:first"}, "--device: 'first' is not a whole number");
  expect_refused({"--device", "cuda:"}, "--device: '' is empty");
  expect_refused({"--device", "cpu:1"}, "--device: 'cpu:1' is unknown");
}

TEST(RunOptions, refuse_a_model_that_cannot_be_before_any_row_runs) {
  expect_refused({"--model", "tiny", "--heads", "4,3"}, "does not divide");
  expect_refused({"--d-model", "4611686018427387904", "--layers", "1", "--d-ff", "1", "--heads", "1"}, "overflow");
  expect_refused({"--batch", "4611686018427387904"}, "overflow");
}

TEST(RunOptions, run_every_workload_by_its_name) {
  const std::vector<RunConfig> configs = expand({"--workload", "transformer,toy,attention", "--mode", "forward"});
  ASSERT_EQ(configs.size(), 3U);
  EXPECT_EQ(configs[0].workload->describe().model.name, "tiny");
  EXPECT_EQ(configs[1].workload->describe().model.name, "toy");
  EXPECT_EQ(configs[2].workload->describe().model.name, "attention of tiny");
  EXPECT_EQ(configs[2].workload->transformer(), nullptr);
  EXPECT_EQ(expand({"--workload", "attention"})[0].compile.mode, Mode::forward_backward);
  const WorkloadDescription wider =
      expand({"--workload", "attention", "--d-model", "64", "--heads", "2"})[0].workload->describe();
  EXPECT_EQ(wider.model.head_size, 32);
}

TEST(RunOptions, refuse_what_a_workload_has_not) {
  expect_refused({"--workload", "transfomer"}, "--workload: 'transfomer' is unknown; did you mean 'transformer'?");
  expect_refused({"--workload", "toy", "--context", "64"},
                 "--context: the workload 'toy' has fixed sizes; leave it out");
  expect_refused({"--workload", "transformer,attention", "--layers", "2"},
                 "--layers: the workload 'attention' has --model, --config-override, --d-model, --heads");
  expect_refused({"--workload", "attention", "--mode", "step"},
                 "the workload 'attention' has none; use forward or forward_backward");
}

TEST(RunOptions, run_what_a_program_registers) {
  register_workload({.name = "mine", .settings = {"batch"}, .make = [](const WorkloadSettings& settings) {
                       return std::make_shared<ToyModel>(ToyModelConfig{.batch = settings.batch});
                     }});
  EXPECT_EQ(expand({"--workload", "mine", "--batch", "7"})[0].workload->describe().batch, 7);
  expect_refused({"--workload", "mine", "--vocab", "9"}, "--vocab: the workload 'mine' has --batch alone");
  expect_refused({"--workload", "mien"}, "did you mean 'mine'?");
  EXPECT_THAT(error_of([] { register_workload({.name = "toy", .settings = {}, .make = {}}); }),
              HasSubstr("there is a workload 'toy'"));
}

TEST(RunOptions, refuse_a_sweep_without_end) {
  expect_refused({"--batch", "1:200", "--context", "2:402:+2"}, "more than 10000 rows");
}

TEST(RunOptions, single_refuses_a_sweep) {
  RunOptions options;
  CLI::App app;
  options.add_to(app);
  app.parse(std::vector<std::string>{"1,2", "--batch"});
  EXPECT_THAT(error_of([&] { options.single(); }), HasSubstr("2 configurations"));
  EXPECT_TRUE(options.given("--batch"));
  EXPECT_FALSE(options.given("--context"));
}

}  // namespace
}  // namespace ridgepoint::cli
