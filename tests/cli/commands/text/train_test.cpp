// ridgepoint train and sample, as scripts use them.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/refusals.h"
#include "core/files/file.h"
#include "core/text/json.h"
#include "interchange/safetensors.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/golden_families.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "train/checkpoint/manifest.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("line {} of {} says that {} is not {}\n", i, 200, i * 7, i % 13);
    write_file(text_, text);
    arguments_ = {"train", "--data",    text_, "--layers", "2",   "--d-model",    "32", "--heads",  "2",    "--batch",
                  "2",     "--context", "32",  "--device", "cpu", "--iterations", "12", "--format", "jsonl"};
  }
  static std::vector<Json> rows_of(const std::string& lines) {
    std::vector<Json> rows;
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) rows.push_back(parse_json(line));
    return rows;
  }
  std::vector<Json> train(const std::vector<std::string>& more) const {
    return rows_of(output_of(run_program(with_options(arguments_, more))));
  }
  static std::vector<double> losses_of(const std::vector<Json>& rows) {
    std::vector<double> losses;
    for (const Json& row : rows) losses.push_back(row.at("loss").get<double>());
    return losses;
  }
  // The lines of the history by their steps and losses.
  static std::vector<std::pair<std::int64_t, double>> history_of(const fs::path& folder) {
    std::vector<std::pair<std::int64_t, double>> steps;
    for (const Json& row : rows_of(read_file(folder / "steps.jsonl", 1 << 20)))
      steps.emplace_back(row.at("step").get<std::int64_t>(), row.at("loss").get<double>());
    return steps;
  }
  std::string folder(const std::string& name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
  std::string text_ = (folder_ / "text.txt").string();
  std::vector<std::string> arguments_;
};

TEST_F(TrainTest, writes_a_line_a_step_and_a_checkpoint) {
  const std::vector<Json> rows = train({"--save", folder("run"), "--save-every", "5"});
  ASSERT_EQ(rows.size(), 12);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("step"), i + 1);
    EXPECT_GT(rows[i].at("tokens_per_second"), 0);
    EXPECT_GT(rows[i].at("gradient_norm"), 0);
  }
  EXPECT_LT(rows.back().at("loss").get<double>(), 0.95 * rows.front().at("loss").get<double>());
  EXPECT_TRUE(fs::exists(fs::path(folder("run")) / "step-000000012" / "model.safetensors"));
  EXPECT_EQ(history_of(folder("run")).size(), 12);
}

TEST_F(TrainTest, goes_on_to_the_bit) {
  const std::vector<double> whole = losses_of(train({}));
  train({"--save", folder("run"), "--iterations", "7"});
  const std::vector<double> rest = losses_of(train({"--resume", folder("run")}));
  ASSERT_EQ(rest.size(), 5);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 7));
  EXPECT_THAT(run_program(with_options(arguments_, {"--resume", folder("run"), "--format", "table"})),
              prints("All 12 steps are done already."));
}

TEST_F(TrainTest, does_not_mix_its_checkpoints_with_those_of_an_earlier_run) {
  train({"--save", folder("run"), "--iterations", "3"});
  EXPECT_THAT(run_program(with_options(arguments_, {"--save", folder("run"), "--iterations", "2"})),
              fails(2, "has checkpoints of an earlier run, up to step 3; --resume"));
  EXPECT_FALSE(fs::exists(fs::path(folder("run")) / "step-000000002"));
}

TEST_F(TrainTest, warns_of_a_schedule_whose_past_rates_differ_and_of_no_other) {
  const auto warning_of = [&](const std::string& name, const std::vector<std::string>& first,
                              const std::vector<std::string>& then) {
    train(with_options({"--save", folder(name), "--iterations", "6"}, first));
    return run_program(with_options(with_options(arguments_, {"--resume", folder(name), "--iterations", "8"}), then))
        .error;
  };
  EXPECT_THAT(warning_of("constant", {"--schedule", "constant"}, {"--schedule", "constant"}),
              Not(HasSubstr("--resume")));
  EXPECT_THAT(warning_of("wsd", {"--schedule", "constant"}, {"--schedule", "wsd", "--decay-iterations", "2"}),
              Not(HasSubstr("--resume")));
  EXPECT_THAT(warning_of("cosine", {"--schedule", "cosine"}, {"--schedule", "cosine"}),
              HasSubstr("--resume: the learning rate of step"));
  EXPECT_THAT(warning_of("decay", {"--schedule", "wsd", "--decay-iterations", "3"},
                         {"--schedule", "wsd", "--decay-iterations", "4"}),
              HasSubstr("--resume: the learning rate of step 4 was"));
}

TEST_F(TrainTest, verifies_that_a_resumed_run_is_equal) {
  EXPECT_THAT(output_of(run_program(with_options(arguments_, {"--verify-resume", "--format", "table"}))),
              HasSubstr("A run that goes on from step 6 is equal to the bit: the losses of all 12 steps"));
}

TEST_F(TrainTest, evaluates_and_goes_on_with_tensors_on_the_host) {
  const auto with = [](std::vector<std::string> more) {
    // Weights of blocks, and what they save, of 1 MiB.
    more.insert(more.end(), {"--layers", "3", "--d-model", "16", "--d-ff", "16384", "--iterations", "4"});
    return more;
  };
  const std::vector<std::string> evaluates = {"--validation-share", "0.2", "--evaluate-every", "2", "--batch", "1"};
  const std::vector<Json> plain = train(with(evaluates));
  for (const std::string offload : {"optimizer", "optimizer,parameters,activations"}) {
    std::vector<std::string> more = with(evaluates);
    more.insert(more.end(), {"--offload", offload});
    const std::vector<Json> offloaded = train(more);
    EXPECT_EQ(losses_of(offloaded), losses_of(plain));
    EXPECT_EQ(offloaded[3].at("validation_loss"), plain[3].at("validation_loss"));
    EXPECT_LT(offloaded[3].at("peak_allocated"), plain[3].at("peak_allocated"));
  }
  EXPECT_THAT(output_of(run_program(with_options(
                  arguments_, with({"--verify-resume", "--format", "table", "--offload",
                                    "optimizer,parameters,activations", "--offload-folder", folder("")})))),
              HasSubstr("is equal to the bit"));
  // The bf16 halves of weights are on the host, the low ones on the device.
  const auto saved = [&](const std::string& name, const std::string& offload) {
    train(with({"--dtype", "bf16", "--compile", "full", "--offload", offload, "--save", folder(name)}));
    return read_file(fs::path(folder(name)) / "step-000000004" / "model.safetensors", 1 << 28);
  };
  EXPECT_EQ(saved("halves", "parameters"), saved("plain", "none"));
}

TEST_F(TrainTest, ends_with_a_checkpoint_where_a_scheduler_asks) {
  ChildProgram child(with_options(arguments_, {"--iterations", "1000000", "--save", folder("run")}));
  while (child.output_so_far().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  child.signal(SIGTERM);
  const ProgramResult result = child.wait();
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(result.error, HasSubstr("goes on from there"));
  const std::size_t steps = rows_of(result.output).size();
  EXPECT_TRUE(fs::exists(fs::path(folder("run")) / fmt::format("step-{:09}", steps)));
}

TEST_F(TrainTest, ends_with_a_checkpoint_when_its_time_is_over) {
  EXPECT_THAT(run_program(with_options(arguments_,
                                       {"--iterations", "1000000", "--time-limit", "0.2s", "--save", folder("run")})),
              fails(75, "out of time after step"));
}

TEST_F(TrainTest, stops_skips_or_goes_back_where_a_loss_is_no_number) {
  const std::vector<std::string> wild = with_options(arguments_, {"--learning-rate", "1e38", "--save", folder("run")});
  EXPECT_THAT(run_program(wild), fails(1, "--on-nan says what else to do"));
  const ProgramResult skipped = run_program(with_options(wild, {"--on-nan", "skip"}));
  EXPECT_EQ(skipped.exit_code, 0) << skipped.error;
  EXPECT_THAT(skipped.error, HasSubstr("it updated nothing"));
  EXPECT_GT(rows_of(skipped.output).back().at("skipped_steps"), 0);
  const ProgramResult back =
      run_program(with_options(wild, {"--on-nan", "back", "--save-every", "1", "--save", folder("b")}));
  EXPECT_EQ(back.exit_code, 1);
  EXPECT_THAT(back.error, HasSubstr("back to step 1, and on with the next sequences"));
  EXPECT_THAT(back.error, HasSubstr("gone back 3 times without passing it"));
}

TEST_F(TrainTest, skips_or_stops_from_a_checkpoint_of_a_run_that_did_the_other) {
  train({"--save", folder("run"), "--iterations", "3"});
  const std::vector<Json> skipping = train({"--resume", folder("run"), "--iterations", "6", "--on-nan", "skip"});
  EXPECT_EQ(skipping.back().at("skipped_steps"), 0);
  EXPECT_EQ(losses_of(train({"--resume", folder("run")})).back(), losses_of(train({})).back());
}

TEST_F(TrainTest, sees_a_spike_soon_after_it_goes_on) {
  write_file(text_, std::string(80 * 32 + 1, 'a') + std::string(20 * 32, 'b'));
  const std::vector<std::string> spiky =
      with_options(arguments_, {"--batch", "1", "--shuffle", "off", "--learning-rate", "1e-2", "--iterations", "90",
                                "--spike", "3", "--on-spike", "stop"});
  const std::string spike = "step 81: the loss is";
  EXPECT_THAT(run_program(with_options(spiky, {"--save", folder("run"), "--save-every", "40"})).error,
              HasSubstr(spike));
  EXPECT_THAT(run_program(with_options(spiky, {"--resume", folder("run")})).error, HasSubstr(spike));
}

TEST_F(TrainTest, warns_of_other_data_than_those_of_the_checkpoint) {
  train({"--save", folder("run"), "--iterations", "3"});
  const auto warning = [&] { return run_program(with_options(arguments_, {"--resume", folder("run")})).error; };
  EXPECT_EQ(warning(), "");
  write_file(text_, std::string(fs::file_size(text_), 'a'));
  EXPECT_THAT(warning(), HasSubstr("--resume: data_fingerprint was"));
}

TEST_F(TrainTest, warns_of_data_of_another_length_than_those_of_an_older_checkpoint) {
  train({"--save", folder("run"), "--iterations", "3"});
  const fs::path checkpoint = fs::path(folder("run")) / "step-000000003";
  train::ManifestContents contents = train::read_manifest(checkpoint);
  contents.manifest.run.erase("data_fingerprint");
  write_file(checkpoint / train::kManifestFile, train::manifest_text(contents));
  write_file(text_, std::string(2 * fs::file_size(text_), 'a'));
  EXPECT_THAT(run_program(with_options(arguments_, {"--resume", folder("run")})).error,
              HasSubstr("--resume: sequences was"));
}

TEST_F(TrainTest, evaluates_on_the_end_of_the_data) {
  const std::vector<Json> rows = train({"--validation-share", "0.2", "--evaluate-every", "6"});
  EXPECT_TRUE(rows[0].at("validation_loss").is_null());
  EXPECT_GT(rows[5].at("validation_loss"), rows[11].at("validation_loss"));
  // The steps have chunks of the loss; the evaluation, which has no backward phase, says nothing of them.
  EXPECT_EQ(run_program(with_options(arguments_, {"--validation-share", "0.2", "--loss-chunk", "4"})).error, "");
}

TEST_F(TrainTest, compares_two_runs_by_their_histories) {
  train({"--save", folder("a"), "--iterations", "60"});
  train({"--save", folder("b"), "--iterations", "60", "--learning-rate", "1e-2"});
  const std::string repeated = (folder_ / "repeated.jsonl").string();
  train({"--output", repeated, "--iterations", "60"});
  const ProgramResult same = run_program({"compare", folder("a"), repeated, "--format", "jsonl"});
  EXPECT_EQ(same.exit_code, 0) << same.error;
  EXPECT_EQ(rows_of(same.output).at(0).at("verdict"), "identical");
  EXPECT_EQ(rows_of(same.output).at(0).at("peak_allocated"), rows_of(same.output).at(0).at("baseline_peak_allocated"));
  EXPECT_THAT(run_program({"compare", folder("a"), folder("b"), "--fail-if-loss-worse", "0.5%"}),
              prints("first step that differs"));
  const ProgramResult worse = run_program({"compare", folder("b"), folder("a"), "--fail-if-loss-worse", "0.5%"});
  EXPECT_EQ(worse.exit_code, 6);
  EXPECT_THAT(worse.error, HasSubstr("/a' has a higher loss than its baseline by more than 0.5%"));
  const std::string other = (folder_ / "other.txt").string();
  write_file(other, read_file(text_, 1 << 20).substr(100));
  train({"--save", folder("c"), "--data", other});
  expect_refused({"compare", folder("a"), folder("c")}, 1, "was trained on other data");
  expect_usage_error({"compare", "--model", "tiny,small", "--last", "3"}, "--last is for the steps of trainings");
}

TEST_F(TrainTest, the_data_of_a_run_have_the_same_fingerprint_in_every_order) {
  const std::vector<Json> rows = train({}), other = train({"--seed", "1"});
  EXPECT_EQ(rows[0].at("data"), other[11].at("data"));
  EXPECT_NE(rows[0].at("first_sequence"), other[0].at("first_sequence"));
  EXPECT_EQ(rows[11].at("tokens"), 12 * 2 * 32);
}

TEST_F(TrainTest, says_the_gradient_noise_of_micro_batches_and_why_one_batch_has_none) {
  const std::vector<Json> rows = train({"--accumulate", "2", "--iterations", "30"});
  EXPECT_GT(rows[0].at("micro_gradient_norm"), 0);
  EXPECT_NE(rows[0].at("micro_gradient_norm"), rows[0].at("gradient_norm"));
  EXPECT_GT(rows[29].at("noise_scale"), 0);
  const auto table = [&](const char* accumulate) {
    return run_program(with_options(arguments_, {"--accumulate", accumulate, "--format", "table"})).output;
  };
  EXPECT_THAT(table("2"), AllOf(HasSubstr("noise scale"), HasSubstr("a step has 128")));
  EXPECT_THAT(table("1"), HasSubstr("needs the gradients of micro-batches, --accumulate 2 or more"));
  EXPECT_TRUE(train({})[11].at("noise_scale").is_null());
}

TEST_F(TrainTest, the_gradient_noise_goes_on_where_a_run_is_resumed) {
  const auto noise_of = [](const std::vector<Json>& rows) { return rows.back().at("noise_scale").get<double>(); };
  const std::vector<std::string> whole = {"--accumulate", "2", "--iterations", "30", "--schedule", "constant"};
  const double uninterrupted = noise_of(train(whole));
  train(with_options(whole, {"--save", folder("run"), "--iterations", "20"}));
  EXPECT_EQ(noise_of(train(with_options(whole, {"--resume", folder("run")}))), uninterrupted);
}

TEST_F(TrainTest, samples_from_a_checkpoint) {
  train({"--save", folder("run"), "--iterations", "60", "--learning-rate", "1e-2"});
  const std::vector<std::string> sample = {"sample",   "--checkpoint", folder("run"), "--prompt", "line",
                                           "--device", "cpu",          "--tokens",    "40"};
  const ProgramResult greedy = run_program(with_options(sample, {"--temperature", "0"}));
  EXPECT_EQ(greedy.exit_code, 0) << greedy.error;
  EXPECT_TRUE(greedy.output.starts_with("line"));
  EXPECT_EQ(greedy.output, run_program(with_options(sample, {"--temperature", "0"})).output);
  const std::string seeded = run_program(with_options(sample, {"--seed", "1"})).output;
  EXPECT_EQ(seeded, run_program(with_options(sample, {"--seed", "1"})).output);
  EXPECT_NE(seeded, run_program(with_options(sample, {"--seed", "2"})).output);
}

// Bytes that are no character yet decode to U+FFFD, and those of a whole character before them, too.
TEST_F(TrainTest, samples_characters_of_several_tokens_each) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += fmt::format("{}\"<0x{:02X}>\":{}", byte > 0 ? "," : "", byte, byte);
  const std::string tokenizer = folder("tokenizer.json");
  write_file(tokenizer, R"({"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]},)"
                        R"("model":{"type":"BPE","byte_fallback":true,"merges":[],"vocab":{)" +
                            bytes + "}}}");
  std::string text;
  for (int i = 0; i < 200; ++i) text += "\U0001F44D\u65E5";
  write_file(text_, text);
  train({"--tokenizer", tokenizer, "--save", folder("run"), "--iterations", "60", "--learning-rate", "1e-2"});
  EXPECT_EQ(output_of(run_program({"sample", "--checkpoint", folder("run"), "--prompt", "\U0001F44D", "--device", "cpu",
                                   "--tokens", "12", "--temperature", "0"})),
            "\U0001F44D\u65E5\U0001F44D\u65E5\n");
}

TEST_F(TrainTest, sample_says_why_a_model_computes_each_token_from_the_whole_text) {
  const TemporaryFolder mamba;
  testing::write_golden_model("mamba2", mamba.path());
  EXPECT_THAT(run_program({"sample", "--weights", mamba.path().string(), "--tokenizer", "byte", "--prompt", "\x05",
                           "--tokens", "1", "--context", "16", "--device", "cpu"}),
              warns("because some of its layers keep another state than keys and values"));
}

TEST_F(TrainTest, adapters_are_read_with_their_base) {
  const std::vector<std::string> lora = {"--lora", "r=4,alpha=8,targets=q_proj,v_proj,w2", "--learning-rate", "1e-1"};
  train(with_options({"--save", folder("run"), "--iterations", "20"}, lora));
  const fs::path checkpoint = fs::path(folder("run")) / "step-000000020";
  EXPECT_TRUE(fs::exists(checkpoint / "adapter/adapter_config.json"));
  const ProgramResult merged =
      run_program({"verify", "--device", "cpu", "--weights", (checkpoint / "adapter").string(), "--save-weights",
                   folder("whole") + "/", "--batch", "2", "--context", "32"});
  EXPECT_EQ(merged.exit_code, 0) << merged.error;
  const auto text = [&](const std::vector<std::string>& of) {
    return output_of(run_program(
        with_options({"sample", "--prompt", "line", "--device", "cpu", "--tokens", "30", "--temperature", "0"}, of)));
  };
  const std::vector<std::string> byte = {"--tokenizer", "byte", "--context", "32"};
  const std::string adapted = text({"--checkpoint", checkpoint.string()});
  EXPECT_EQ(adapted, text(with_options({"--weights", (checkpoint / "adapter").string()}, byte)));
  EXPECT_EQ(adapted, text(with_options({"--weights", folder("whole")}, byte)));
  EXPECT_NE(adapted, text(with_options({"--weights", checkpoint.string()}, byte)));
  // Of another base.
  train({"--save", folder("other"), "--iterations", "1", "--layers", "1"});
  const std::string config = (checkpoint / "adapter/adapter_config.json").string();
  Json fields = parse_json(read_file(config, 1 << 20));
  fields["base_model_name_or_path"] = folder("other") + "/step-000000001";
  write_file(config, dump_json(fields));
  expect_refused({"sample", "--weights", (checkpoint / "adapter").string(), "--tokenizer", "byte", "--prompt", "x"}, 1,
                 "the adapter is of another base");
}

// The folder of a checkpoint is that of a model which bitsandbytes quantised.
TEST_F(TrainTest, packed_files_are_taken_as_they_are) {
  for (const std::string format : {"nf4", "nf4-single", "int8"}) {
    const std::string first = folder("first-" + format), second = folder("second-" + format);
    train({"--save", first, "--iterations", "1", "--dtype", "bf16", "--lora", "r=2", "--base-weights", format});
    const std::string files = first + "/step-000000001";
    const Json config = parse_json(read_file(files + "/config.json", 1 << 20));
    EXPECT_EQ(config.at("quantization_config").at(format == "int8" ? "load_in_8bit" : "load_in_4bit"), true);
    const std::vector<std::string> words = {"train", "--data",   text_,  "--weights",    files, "--tokenizer",
                                            "byte",  "--batch",  "2",    "--context",    "32",  "--device",
                                            "cpu",   "--lora",   "r=2",  "--iterations", "1",   "--seed",
                                            "3",     "--format", "jsonl"};
    const ProgramResult trained = run_program(with_options(words, {"--save", second}));
    EXPECT_EQ(trained.exit_code, 0) << trained.error;
    for (const char* name : {"/config.json", "/model.safetensors"})
      EXPECT_EQ(read_file(files + name, 1 << 24), read_file(second + "/step-000000001" + name, 1 << 24)) << name;
    EXPECT_EQ(run_program(with_options(words, {"--verify-resume", "--iterations", "2"})).exit_code, 0);
    const auto text = [&](const std::vector<std::string>& more) {
      return run_program(with_options({"sample", "--weights", files, "--tokenizer", "byte", "--context", "32",
                                       "--prompt", "line", "--device", "cpu", "--tokens", "20", "--temperature", "0"},
                                      more))
          .output;
    };
    EXPECT_EQ(text({}), text({"--base-weights", "as-is"}));
    EXPECT_FALSE(text({}).empty());
    const std::vector<std::string> plan = {"plan", "--model", files + "/config.json", "--format", "json"};
    EXPECT_THAT(output_of(run_program(with_options(plan, {"--lora", "r=2"}))),
                HasSubstr("\"base_weights\":\"" + format + "\""));
    EXPECT_EQ(run_program(with_options(plan, {"--mode", "forward"})).exit_code, 0);
    EXPECT_EQ(run_program(with_options(plan, {"--base-weights", "as-is"})).exit_code, 0);
    expect_refused(plan, 2, "which does not train; add --lora r=16, or --base-weights as-is");
    expect_refused(with_options(plan, {"--lora", "r=2", "--base-weights", format == "nf4" ? "int8" : "nf4"}), 2,
                   "leave the option out to take them as they are");
    expect_refused(with_options(plan, {"--lora", "r=2", "--dtype", "fp32"}), 2, "or --base-weights as-is");
  }
}

// No files of models have weights in fp8: the model has them in bf16, and the states of the checkpoint as they are.
TEST_F(TrainTest, weights_in_fp8_go_on_to_the_bit_and_are_exported_in_bf16) {
  const std::vector<std::string> in_fp8 = {"--dtype", "fp8",       "--lora", "r=2",       "--base-weights",
                                           "fp8",     "--d-model", "128",    "--compile", "full"};
  const ProgramResult resumed =
      run_program(with_options(with_options(arguments_, in_fp8), {"--verify-resume", "--iterations", "2"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
  train(with_options(in_fp8, {"--save", folder("run"), "--iterations", "1"}));
  const std::string files = folder("run") + "/step-000000001";
  EXPECT_FALSE(parse_json(read_file(files + "/config.json", 1 << 20)).contains("quantization_config"));
  const SafetensorsFile model(files + "/model.safetensors"), states(files + "/optimizer.safetensors");
  const TensorType type = model.type("model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(type.dtype, DType::bf16);
  EXPECT_EQ(states.type("float8.layers.0.ffn.w2.weight").elements(), type.elements() + 4);
  expect_refused(with_options(with_options(arguments_, in_fp8), {"--dtype", "fp32"}), 2,
                 "add --dtype bf16, fp16 or fp8");
  expect_refused(with_options(arguments_, {"--dtype", "fp8", "--base-weights", "fp8"}), 2, "add --lora or --frozen");
  expect_refused(with_options(arguments_, {"--base-weights", "fp7"}), 2, "fp8");
}

TEST_F(TrainTest, packed_files_in_another_form_are_widened_where_that_is_asked) {
  train({"--save", folder("run"), "--iterations", "1", "--dtype", "bf16", "--lora", "r=2", "--base-weights", "nf4"});
  const std::string config = folder("run") + "/step-000000001/config.json";
  Json fields = parse_json(read_file(config, 1 << 20));
  fields["quantization_config"]["bnb_4bit_quant_type"] = "fp4";
  write_file(config, dump_json(fields));
  expect_refused({"plan", "--model", config, "--lora", "r=2"}, 2, "their weights in fp4");
  expect_refused({"plan", "--model", config, "--lora", "r=2", "--base-weights", "nf4"}, 2, "give as-is to widen them");
  EXPECT_EQ(run_program({"plan", "--model", config, "--base-weights", "as-is"}).exit_code, 0);
}

class OnCardTrain : public TrainTest {};

TEST_F(OnCardTrain, says_that_a_checkpoint_holds_the_run_up_where_the_card_has_no_room_for_a_copy) {
  if (default_device_name() != "cuda") GTEST_SKIP() << "no card";
  const auto on_card = with_options(arguments_, {"--device", "cuda", "--save", folder("run"), "--save-every", "5"});
  EXPECT_THAT(run_program(on_card), warns(Not(HasSubstr("checkpoints hold the run up"))));
  const ProgramResult tight =
      run_program(with_options(on_card, {"--memory-limit", "300MiB", "--save", folder("tight")}));
  EXPECT_EQ(tight.exit_code, 0) << tight.error;
  EXPECT_THAT(tight.error, HasSubstr("checkpoints hold the run up"));
  EXPECT_EQ(history_of(folder("run")), history_of(folder("tight")));
}

TEST_F(TrainTest, refuses_what_cannot_be_trained_on) {
  const auto with = [&](const std::vector<std::string>& more) { return with_options(arguments_, more); };
  const auto file = [&](const char* name, const std::string& content) {
    write_file(folder_ / name, content);
    return folder(name);
  };
  expect_refused(with({"--data", file("empty.txt", "")}), 1, "is empty: it has no text");
  expect_refused(with({"--data", folder("missing.txt")}), 1, "missing.txt");
  expect_usage_error(with({"--data", file("short.txt", "short")}), "the data have 5 tokens, but a sequence takes 32");
  expect_refused(with({"--data", file("high.bin", std::string(200, '\xff'))}), 1, "the vocabulary has");
  expect_usage_error(with({"--vocab", "100"}), "the tokenizer has 256 tokens, and the model a vocabulary of 100");
  expect_refused(with({"--model", "bert-base-uncased", "--layers", "1"}), 2, "it needs a decoder");
  expect_usage_error(with({"--resume", folder("nothing")}), "has no checkpoint");
  expect_usage_error(with({"--iterations", "0"}), "--iterations: 0 is too small; the least is 1");
  expect_usage_error(with({"--on-spike", "skip"}), "choose stop or back");
  expect_usage_error(with({"--on-nan", "back", "--on-spike", "stop"}),
                     "--on-nan back needs checkpoints to go back to: give --save FOLDER");
  expect_usage_error(with({"--spike", "3"}), "--spike with --on-spike back needs checkpoints");
  expect_usage_error(with({"--schedule", "cosin"}), "did you mean 'cosine'");
  expect_usage_error(with({"--schedule", "linear", "--optimizer", "lion", "--min-learning-rate", "2e-4"}),
                     "--min-learning-rate: 0.0002 is above the learning rate, 0.0001");
  expect_usage_error(with({"--save-every", "3"}), "--save-every needs --save FOLDER");
  expect_usage_error(with({"--evaluate-every", "3"}), "--evaluate-every needs data");
  expect_usage_error({"sample", "--prompt", "x"}, "give --checkpoint FOLDER or --weights PATH");
}

TEST_F(TrainTest, refuses_the_checkpoint_of_another_run) {
  train({"--save", folder("run"), "--iterations", "2"});
  const auto resumed = with_options(arguments_, {"--resume", folder("run")});
  expect_refused(with_options(resumed, {"--dtype", "bf16"}), 2, "the checkpoint is of a run with dtype \"fp32\"");
  expect_refused(with_options(resumed, {"--optimizer", "lion"}), 2, "the checkpoint is of a run with optimizer");
  expect_refused(with_options(resumed, {"--layers", "3"}), 1, "layers.2");
  EXPECT_THAT(run_program(with_options(resumed, {"--batch", "4"})),
              warns("sequences_of_a_step was 2 and is 4; the losses are not those of the run"));
  const ProgramResult clipped = run_program(with_options(resumed, {"--clip-norm", "1", "--iterations", "3"}));
  EXPECT_THAT(clipped.error, HasSubstr("clip_norm was null and is 1.0; the losses are not those of the run"));
  const ProgramResult apart = run_program(with_options(resumed, {"--documents", "apart"}));
  EXPECT_THAT(apart.error, HasSubstr("documents was \"packed\" and is \"apart\""));
}

}  // namespace
}  // namespace ridgepoint
