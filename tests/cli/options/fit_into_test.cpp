// --fit-into of plan, bench, memory and train.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/refusals.h"
#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr int kNoneFits = 4;

std::vector<std::string> small_plan(const std::vector<std::string>& more) {
  return with_options({"plan", "--layers", "4", "--d-model", "512", "--heads", "8", "--vocab", "4000", "--context",
                       "512", "--batch", "4", "--dtype", "bf16", "--attention", "flash", "--compile", "full"},
                      more);
}

nlohmann::json fitted_rows(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  return nlohmann::json::parse(run_program(arguments).output);
}

TEST(FitInto, plans_the_fastest_schedule_within_each_memory) {
  const nlohmann::json rows = fitted_rows(small_plan({"--card", "h100", "--fit-into", "390MiB,480MiB,40GiB"}));
  ASSERT_EQ(rows.size(), 3U);
  double before = 1e30;
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["fits"], true);
    EXPECT_EQ(row["capacity_bytes"], row["fit_into_bytes"]);
    EXPECT_LE(row["memory_bytes"]["peak_reserved"], row["fit_into_bytes"]);
    EXPECT_NEAR(row["schedule"]["ms"].get<double>(), row["predicted_ms"].get<double>(), 1e-6);
    EXPECT_LE(row["schedule"]["bound_ms"], row["schedule"]["ms"]);
    EXPECT_LE(row["schedule"]["ms"].get<double>(), before);
    EXPECT_EQ(row["schedule"]["parts"].size(), row["schedule"]["part_ms"].size());
    EXPECT_EQ(row["batch"].get<int>() * row["accumulate"].get<int>(), 4);
    before = row["schedule"]["ms"];
  }
  EXPECT_EQ(rows[0]["checkpoint"], "auto");
  EXPECT_GT(rows[0]["schedule"]["next_gib_saves_ms"], 0);
  EXPECT_EQ(rows[2]["checkpoint"], "none");
  EXPECT_EQ(rows[2]["schedule"]["gap"], 0);
}

TEST(FitInto, plans_a_model_that_has_no_tokens) {
  EXPECT_EQ(fitted_rows({"plan", "--workload", "toy", "--card", "h100", "--fit-into", "1GiB"})[0]["fits"], true);
}

TEST(FitInto, says_what_was_chosen_and_what_the_next_gib_would_save) {
  EXPECT_THAT(
      output_of(run_program(small_plan({"--card", "h100", "--fit-into", "390MiB"}))),
      AllOf(HasSubstr("Fit into 390.0 MiB: "), HasSubstr("no schedule takes less than"), HasSubstr("The next GiB"),
            HasSubstr("What was chosen"), HasSubstr("layers.0"), HasSubstr("costs ms")));
}

TEST(FitInto, of_a_processor_without_predicted_times_minimises_floors_and_says_so) {
  EXPECT_THAT(output_of(run_program(small_plan({"--fit-into", "390MiB"}))),
              AllOf(HasSubstr("No time is predicted for this processor"), HasSubstr("H100")));
}

TEST(FitInto, says_what_the_least_is_where_nothing_fits) {
  EXPECT_THAT(
      run_program(small_plan({"--card", "h100", "--fit-into", "100MiB"})),
      prints(AllOf(HasSubstr("no schedule fits into 100.0 MiB: the smallest"), HasSubstr("are parameters, states and")),
             kNoneFits));
  const nlohmann::json row = fitted_rows(small_plan({"--card", "h100", "--fit-into", "100MiB"}))[0];
  EXPECT_EQ(row["fits"], false);
  EXPECT_TRUE(row["schedule"]["bound_ms"].is_null());
  EXPECT_GT(row["memory_bytes"]["peak_reserved"], row["capacity_bytes"]);
}

// Beside stored scores the results between attention and the network are small.
TEST(FitInto, finds_blocks_that_keep_their_input_alone_beside_stored_scores) {
  const auto planned = [](const std::vector<std::string>& more) {
    return fitted_rows(
        with_options({"plan", "--card", "rtx 4090", "--layers", "4", "--d-model", "32", "--heads", "4", "--vocab", "97",
                      "--context", "128", "--batch", "1", "--compile", "full", "--attention", "naive"},
                     more))[0];
  };
  const nlohmann::json block = planned({"--checkpoint", "block"});
  const auto bytes = block["memory_bytes"]["peak_reserved"].get<std::int64_t>();
  const nlohmann::json row = planned({"--fit-into", std::to_string(bytes) + "B"});
  EXPECT_EQ(row["fits"], true) << row["schedule"]["problem"];
  EXPECT_LE(row["schedule"]["ms"], block["predicted_ms"]);
}

TEST(FitInto, does_not_exceed_a_smaller_card) {
  const nlohmann::json row = fitted_rows(small_plan({"--card", "t4", "--fit-into", "100GiB"}))[0];
  EXPECT_LT(row["capacity_bytes"], std::int64_t{16} << 30);
  EXPECT_EQ(row["fits"], true);
}

TEST(FitInto, finds_a_schedule_of_ranks) {
  const auto fitted = [](const std::string& shard) {
    return fitted_rows(
        small_plan({"--card", "h100", "--fit-into", "390MiB", "--parallel", "data=2", "--shard", shard}))[0];
  };
  const nlohmann::json whole = fitted("none"), divided = fitted("optimizer");
  EXPECT_EQ(divided["fits"], true);
  EXPECT_LE(divided["memory_bytes"]["peak_reserved"], divided["fit_into_bytes"]);
  EXPECT_EQ(divided["parallel"]["shard"], "optimizer");
  EXPECT_NE(whole["schedule"]["parts"], divided["schedule"]["parts"]) << "parts of states leave more for activations";
}

// Backward computes norms again there, whatever is chosen.
TEST(FitInto, of_ranks_that_divide_parameters_lists_no_norms) {
  const auto parts = [](const std::string& shard) {
    return fitted_rows(small_plan(
        {"--card", "h100", "--fit-into", "250MiB", "--parallel", "data=2", "--shard", shard}))[0]["schedule"]["parts"]
        .dump();
  };
  EXPECT_THAT(parts("optimizer"), HasSubstr("rms_norm"));
  EXPECT_THAT(parts("parameters"), AllOf(HasSubstr("compute again"), Not(HasSubstr("rms_norm"))));
}

TEST(FitInto, is_refused_beside_what_it_decides) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& message) {
    expect_usage_error(small_plan(with_options({"--fit-into", "1GiB"}, more)), message);
  };
  refused({"--checkpoint", "block"}, "--fit-into decides --checkpoint; leave --checkpoint out");
  refused({"--segment", "2"}, "--fit-into decides --segment");
  refused({"--loss-chunk", "512"}, "--fit-into decides --loss-chunk");
  refused({"--accumulate", "2"}, "--fit-into decides --accumulate");
  refused({"--memory-limit", "2GiB"}, "two limits");
  refused({"--fit", "batch"}, "give one");
  refused({"--mode", "forward"}, "--mode forward has none");
  refused({"--parallel", "data=2", "--shard", "auto"}, "--fit-into searches with one sharding; give --shard");
}

TEST(FitInto, needs_a_unit) {
  expect_usage_error(small_plan({"--fit-into", "24"}), "--fit-into: '24' has no unit; write 24GiB");
  expect_usage_error(small_plan({"--fit-into", "24 parsecs"}), "--fit-into: ");
  expect_usage_error(small_plan({"--fit-into", "-3GiB"}), "--fit-into: ");
}

std::vector<std::string> fitted_toy(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> arguments =
      toy_bench(with_options({"--layers", "2", "--d-model", "64", "--d-ff", "192", "--context", "256", "--batch", "4",
                              "--compile", "full", "--attention", "flash"},
                             more));
  arguments[0] = command;
  return arguments;
}

TEST(FitInto, runs_within_the_memory) {
  for (const char* command : {"bench", "memory"}) {
    const std::string all = fitted_rows(fitted_toy("bench", {}))[0]["memory_bytes"]["peak_reserved"].dump();
    const auto limit = std::stoll(all) * 3 / 4;
    const nlohmann::json output = fitted_rows(fitted_toy(command, {"--fit-into", std::to_string(limit) + "B"}));
    const nlohmann::json& row = output.is_array() ? output[0].contains("run") ? output[0]["run"] : output[0] : output;
    EXPECT_EQ(row["status"], "ok") << output;
    EXPECT_LE(row["memory_bytes"]["peak_reserved"].get<long long>(), limit);
    EXPECT_FALSE(row["schedule"]["parts"].empty());
  }
}

TEST(FitInto, fails_before_a_run_that_cannot_fit) {
  const nlohmann::json row = fitted_rows(fitted_toy("bench", {"--fit-into", "64KiB"}))[0];
  EXPECT_EQ(row["status"], "oom");
  EXPECT_THAT(row["error"]["message"].get<std::string>(), HasSubstr("no schedule fits into 64.0 KiB: the smallest"));
}

TEST(FitInto, is_refused_where_others_run_beside) {
  expect_usage_error(toy_bench({"--fit-into", "1GiB", "--cold"}), "leave --first-call, --cold and --peers out");
}

TEST(FitInto, trains_with_the_losses_of_a_step_that_keeps_everything) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt";
  std::string words;
  for (int i = 0; i < 2000; ++i) words += "word " + std::to_string(i * i % 97) + " ";
  write_file(text, words);
  const auto train = [&](const std::vector<std::string>& more) {
    return run_program(
        with_options({"train", "--data", text, "--layers", "2", "--d-model", "64", "--heads", "2", "--batch", "4",
                      "--context", "128", "--device", "cpu", "--iterations", "3", "--format", "jsonl"},
                     more));
  };
  const ProgramResult all = train({});
  const ProgramResult fitted = train({"--fit-into", "6800KiB"});
  ASSERT_EQ(all.exit_code, 0) << all.error;
  ASSERT_EQ(fitted.exit_code, 0) << fitted.error;
  const auto last = [](const std::string& lines) {
    return nlohmann::json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1));
  };
  EXPECT_NEAR(last(fitted.output)["loss"].get<double>(), last(all.output)["loss"].get<double>(), 1e-4);
  EXPECT_LE(last(fitted.output)["peak_allocated"].get<double>(), 6800.0 * 1024);
  EXPECT_GT(last(all.output)["peak_allocated"].get<double>(), 6800.0 * 1024);
  const ProgramResult none = train({"--fit-into", "100KiB"});
  EXPECT_NE(none.exit_code, 0);
  EXPECT_THAT(none.error, HasSubstr("--fit-into: no schedule fits"));
}

}  // namespace
}  // namespace ridgepoint
