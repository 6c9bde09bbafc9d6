// ridgepoint models, and --model with the config.json and the weights of a Hugging Face model, from the outside.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/refusals.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/safetensors.h"
#include "support/graphs/golden_families.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using Words = std::vector<std::string>;

TEST(ModelsCommand, lists_presets_and_known_models_with_what_they_take) {
  const auto rows = nlohmann::json::parse(output_of(run_program({"models", "--format", "json"})));
  EXPECT_GE(rows.size(), 38U);
  EXPECT_EQ(rows.at(0).at("model"), "tiny");
  EXPECT_EQ(rows.at(0).at("family"), "preset");
  const auto llama = std::ranges::find_if(rows, [](const auto& row) { return row.at("model") == "llama-3.2-1b"; });
  ASSERT_NE(llama, rows.end());
  EXPECT_EQ(llama->at("kv_heads"), 8);
  EXPECT_EQ(llama->at("parameters"), 1'235'814'400);
  EXPECT_EQ(llama->at("weight_bytes"), 4 * 1'235'814'400LL);
  EXPECT_EQ(llama->at("step_state_bytes"), 16 * 1'235'814'400LL);
  EXPECT_EQ(llama->at("max_context"), 131072);
}

TEST(ModelsCommand, lists_those_with_a_text_in_their_name_or_family) {
  const ProgramResult result = run_program({"models", "Qwen3"});
  EXPECT_THAT(result.output, AllOf(HasSubstr("qwen3-30b-a3b"), HasSubstr("113.7 GiB"), Not(HasSubstr("llama"))));
  EXPECT_THAT(run_program({"models", "gemma3_text"}).output, HasSubstr("gemma-3-1b"));
  expect_refused({"models", "lamma-3.2-1b"}, 2, "did you mean 'llama-3.2-1b'?");
}

class ModelFolder : public ::testing::Test {
 protected:
  ModelFolder() {
    std::filesystem::create_directory(path());
    write_file(folder_ / "toy/config.json",
               R"({"model_type": "llama", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 40,
                   "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                   "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "attention_dropout": 0.5, "colour": "red"})");
  }
  std::string path() const { return folder_ / "toy"; }
  nlohmann::json plan(const Words& more) const {
    return nlohmann::json::parse(
               output_of(run_program(with_options(
                   {"plan", "--model", path(), "--context", "16", "--batch", "2", "--format", "json"}, more))))
        .at(0);
  }
  TemporaryFolder folder_;
};

TEST_F(ModelFolder, is_a_model_of_plan_whose_record_says_what_it_is) {
  const nlohmann::json model = plan({}).at("model");
  EXPECT_EQ(model.at("name"), "toy");
  EXPECT_EQ(model.at("family"), "llama");
  EXPECT_EQ(model.at("kv_heads"), 2);
  EXPECT_EQ(model.at("head_size"), 8);
  EXPECT_EQ(model.at("d_ff"), 40);
}

TEST_F(ModelFolder, says_what_is_off_and_what_is_ignored_once) {
  const ProgramResult result = run_program({"plan", "--model", path(), "--context", "8,16"});
  EXPECT_THAT(result.error, AllOf(HasSubstr("toy: dropout is off: attention_dropout 0.5"), HasSubstr("'colour'")));
  EXPECT_EQ(result.error.find("dropout"), result.error.rfind("dropout is"));
}

TEST_F(ModelFolder, gives_way_to_sizes_and_overrides) {
  EXPECT_EQ(plan({"--layers", "3"}).at("model").at("layers"), 3);
  EXPECT_EQ(plan({"--layers", "3"}).at("model").at("name"), "custom");
  EXPECT_EQ(plan({"--layers", "3"}).at("model").at("family"), "llama");
  EXPECT_EQ(plan({"--config-override", "num_key_value_heads=1,vocab_size=70"}).at("model").at("vocab"), 70);
  expect_refused({"plan", "--model", path(), "--config-override", "num_layers=1"}, 2, "'num_layers' is no field");
  expect_refused({"plan", "--model", "tiny", "--config-override", "vocab_size=1"}, 2, "is a preset, which has none");
  expect_refused({"plan", "--config-override", "vocab_size=1"}, 2, "it needs --model");
}

TEST_F(ModelFolder, that_is_bad_is_refused_in_one_sentence) {
  write_file(folder_ / "toy/config.json", R"({"model_type": "mamba"})");
  expect_refused({"plan", "--model", path()}, 1, "'mamba', a family that is not supported");
  write_file(folder_ / "toy/config.json", "{");
  expect_refused({"bench", "--model", path()}, 1, "is not JSON");
  std::filesystem::remove(folder_ / "toy/config.json");
  expect_refused({"profile", "--model", path()}, 1, "has no config.json");
}

TEST_F(ModelFolder, is_refused_where_pytorch_has_no_match) {
  const ProgramResult plan = run_program({"plan", "--model", path(), "--as", "torch", "--checkpoint", "selective"});
  EXPECT_EQ(plan.exit_code, 1);
  EXPECT_THAT(plan.output, HasSubstr("transformers checkpoints each layer"));
  expect_refused({"bench", "--device", "cpu", "--model", path(), "--peers", "torch"}, 2, "of another architecture");
}

TEST(ModelsCommand, of_weights_reads_the_numbers_that_correct_routing) {
  const TemporaryFolder folder;
  testing::write_golden_model("deepseek_v3", folder.path());
  const std::string golden = testing::golden_tensors("deepseek_v3");
  const ProgramResult result = run_program({"verify", "--device", "cpu", "--weights", folder.path().string(), "--batch",
                                            "2", "--context", "13", "--tokens", golden, "--optimizer-steps", "0"});
  EXPECT_THAT(result.output, HasSubstr(fmt::format("loss {:.6f}", scalar_of(SafetensorsFile(golden).read("loss")))));
}

TEST(ModelsCommand, the_numbers_that_route_travel_with_the_weights) {
  const TemporaryFolder folder, v4;
  testing::write_golden_model("deepseek_v3", folder.path());
  testing::write_golden_model("deepseek_v4", v4.path());
  const auto verify = [](const Words& more) {
    return output_of(
        run_program(with_options({"verify", "--device", "cpu", "--context", "13", "--optimizer-steps", "0"}, more)));
  };
  const std::string model = folder / "config.json", own = folder / "own.safetensors", tokens = folder / "tokens";
  const std::string corrected = verify({"--weights", folder.path(), "--save-weights", own, "--save-tokens", tokens});
  EXPECT_EQ(verify({"--model", model, "--weights", own, "--tokens", tokens}), corrected);
  const std::string random = v4 / "config.json", saved = v4 / "saved/";
  verify({"--model", random, "--save-weights", saved});  // with the table of experts that it begins with
  EXPECT_EQ(verify({"--weights", saved}), verify({"--model", random}));
}

TEST(ModelsCommand, plans_as_torch_no_model_whose_modules_are_not_modelled) {
  const ProgramResult plan =
      run_program({"plan", "--model", "nemotron-h-8b", "--as", "torch", "--compile", "off", "--card", "h200"});
  EXPECT_EQ(plan.exit_code, 1);
  EXPECT_THAT(plan.output, HasSubstr("what the code of the family allocates in transformers is not modelled for "
                                     "nemotron-h-8b (model_type nemotron_h)"));
}

TEST_F(ModelFolder, saves_weights_that_verify_and_bench_read_again) {
  const std::string saved = folder_ / "saved/";
  const Words run = {"--device", "cpu", "--context", "16", "--batch", "2", "--seed", "7"};
  const auto verify = [&](const Words& more) {
    Words words = {"verify"};
    words.insert(words.end(), run.begin(), run.end());
    return run_program(with_options(words, more));
  };
  const std::string tokens = folder_ / "tokens.safetensors";
  const ProgramResult made = verify({"--model", path(), "--save-weights", saved, "--save-tokens", tokens});
  ASSERT_EQ(made.exit_code, 0) << made.error;
  EXPECT_TRUE(std::filesystem::exists(saved + "model.safetensors"));
  EXPECT_EQ(
      output_of(run_program({"verify", "--device", "cpu", "--model", saved, "--weights", saved, "--tokens", tokens})),
      made.output);
  const ProgramResult timed =
      run_program({"bench", "--device", "cpu", "--model", saved, "--weights", saved + "model.safetensors", "--steps",
                   "1", "--warmup", "0", "--context", "16", "--batch", "1"});
  EXPECT_EQ(timed.exit_code, 0) << timed.error;
  expect_refused({"verify", "--device", "cpu", "--model", path(), "--save-weights", saved}, 1, "has files");
}

// The folder of the weights, a file of it, and a file in the working folder's own notation all name the same model.
TEST_F(ModelFolder, is_found_beside_weights_without_a_model) {
  const std::string saved = folder_ / "saved/";
  const Words run = {"--device", "cpu", "--context", "16", "--batch", "2", "--seed", "7", "--optimizer-steps", "0"};
  const auto verify = [&](const Words& more) {
    Words words = {"verify"};
    words.insert(words.end(), run.begin(), run.end());
    return run_program(with_options(words, more));
  };
  const ProgramResult made = verify({"--model", path(), "--save-weights", saved, "--save-tokens", folder_ / "t"});
  ASSERT_EQ(made.exit_code, 0) << made.error;
  for (const std::string& weights : {saved, saved + "model.safetensors"}) {
    const ProgramResult read = verify({"--weights", weights});
    EXPECT_EQ(read.exit_code, 0) << read.error;
    EXPECT_EQ(read.output, made.output);
    EXPECT_THAT(read.error, HasSubstr("--weights: the model is that of '" + saved + "config.json'"));
  }
  const Words bench = {"bench", "--device", "cpu", "--weights", saved, "--steps",
                       "1",     "--warmup", "0",   "--context", "8"};
  EXPECT_EQ(nlohmann::json::parse(output_of(run_program(with_options(bench, {"--batch", "1", "--format", "json"}))))
                .at(0)
                .at("model")
                .at("kv_heads"),
            2);
  EXPECT_THAT(verify({"--weights", saved, "--model", "tiny"}), fails(1, Not(HasSubstr("the model is that of"))))
      << "--model says which";
  write_file(folder_ / "saved/config.json", "{");
  EXPECT_THAT(verify({"--weights", saved}).error, HasSubstr("is not JSON"));
}

TEST_F(ModelFolder, with_weights_of_another_model_lists_what_is_wrong) {
  const std::string saved = folder_ / "saved/";
  ASSERT_EQ(run_program({"verify", "--device", "cpu", "--model", path(), "--save-weights", saved}).exit_code, 0);
  EXPECT_THAT(run_program({"verify", "--device", "cpu", "--model", saved, "--weights", saved, "--config-override",
                           "num_hidden_layers=3,vocab_size=62"}),
              fails(1, AllOf(HasSubstr("'model.embed_tokens.weight' is"), HasSubstr("model.layers.2."))));
}

}  // namespace
}  // namespace ridgepoint
