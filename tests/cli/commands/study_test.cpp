// ridgepoint study, from the outside: what a stopped study keeps, how it goes on, and what it refuses.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

constexpr std::uint64_t kMostBytes = 1 << 28;

// A few parts, with as many rows as a few seconds allow.
Words small_study(const std::string& folder, const Words& more = {}) {
  return with_options({"study", "--device", "cpu", "--threads", "1", "--quick", "--model", "tiny", "--limit", "8s",
                       "--only", "sizes,warmup,accumulation,attention_grid", "--output", folder},
                      more);
}

std::vector<std::string> complete_lines(const fs::path& file) {
  std::vector<std::string> lines;
  if (!fs::exists(file)) return lines;
  const std::string text = read_file(file, kMostBytes);
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

std::size_t line_count(const std::string& folder) {
  std::size_t count = complete_lines(fs::path(folder) / "log.jsonl").size();
  if (!fs::exists(fs::path(folder) / "records")) return count;
  for (const auto& file : fs::directory_iterator(fs::path(folder) / "records"))
    count += complete_lines(file.path()).size();
  return count;
}

// The lines that no resumption may change: the log, and the rows of sweeps, which take --skip.
std::map<std::string, Words> kept_lines(const std::string& folder) {
  std::map<std::string, Words> kept;
  for (const char* file : {"log.jsonl", "records/sizes.jsonl", "records/warmup.jsonl", "records/attention_grid.jsonl"})
    kept[file] = complete_lines(fs::path(folder) / file);
  return kept;
}

void expect_begins_with(const std::map<std::string, Words>& now, const std::map<std::string, Words>& before) {
  for (const auto& [file, lines] : before) {
    ASSERT_GE(now.at(file).size(), lines.size()) << file;
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(now.at(file)[i], lines[i]) << file << " line " << i + 1;
  }
}

// What every row of a part measured, without its results.
Words settings_of_rows(const std::string& folder, const std::string& part) {
  Words settings;
  for (const std::string& line : complete_lines(fs::path(folder) / "records" / (part + ".jsonl"))) {
    const json row = json::parse(line);
    std::string text;
    for (const char* key : {"mode", "dtype", "attention", "compile", "batch", "context", "warmup", "steps", "model"})
      text += row.value(key, json()).dump() + " ";
    settings.push_back(text);
  }
  return settings;
}

bool is_finished(const std::string& folder) { return fs::exists(fs::path(folder) / "report.html"); }

void expect_whole(const std::string& folder) {
  const json manifest = json::parse(read_file(fs::path(folder) / "study.json", kMostBytes));
  for (const json& part : manifest["parts"]) {
    std::int64_t rows = 0;
    for (const json& command : part["commands"]) rows += command["rows"].get<std::int64_t>();
    const std::string name = part["part"];
    const std::size_t found = complete_lines(fs::path(folder) / "records" / (name + ".jsonl")).size();
    if (rows > 0) {
      EXPECT_EQ(found, static_cast<std::size_t>(rows)) << name;
    }
    EXPECT_GT(found, 0U) << name;
    EXPECT_TRUE(fs::exists(fs::path(folder) / "tables" / (name + ".md"))) << name;
  }
  EXPECT_THAT(read_file(fs::path(folder) / "report.html", kMostBytes), EndsWith("</html>\n"));
  EXPECT_THAT(read_file(fs::path(folder) / "answers.md", kMostBytes), StartsWith("# The answers"));
  EXPECT_THAT(read_file(fs::path(folder) / "README.md", kMostBytes), HasSubstr("ridgepoint bench"));
}

// Kills a study with SIGKILL: after a random time, or right after it has written a random number of lines more, so that
// a slow machine also kills it at work.
void kill_at_random(const std::string& folder, std::mt19937& random) {
  const ChildProgram child(small_study(folder), "/dev/null", "/dev/null");
  const bool waits_for_lines = std::uniform_int_distribution(0, 2)(random) > 0;
  const std::size_t enough = line_count(folder) + std::uniform_int_distribution<std::size_t>(1, 3)(random);
  while (waits_for_lines && line_count(folder) < enough && !is_finished(folder))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(0, 40'000)(random)));
  child.signal(SIGKILL);
}

TEST(Study, loses_nothing_when_it_is_killed_at_10_random_moments) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "study";
  std::mt19937 random(14);
  for (int kills = 0; kills < 10; ++kills) {
    const auto before = kept_lines(folder);
    kill_at_random(folder, random);
    expect_begins_with(kept_lines(folder), before);
    if (is_finished(folder)) fs::remove_all(folder);
  }
  const auto before = kept_lines(folder);
  const ProgramResult result = run_program(small_study(folder));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  expect_begins_with(kept_lines(folder), before);
  expect_whole(folder);

  const std::string other = temporary / "never killed";
  EXPECT_EQ(run_program(small_study(other)).exit_code, 0);
  expect_whole(other);
  for (const char* part : {"sizes", "warmup", "attention_grid"}) {
    // The two studies measured the speed of the machine apart, so one may have planned more than the other.
    const Words one = settings_of_rows(folder, part), two = settings_of_rows(other, part);
    const std::size_t shared = std::min(one.size(), two.size());
    EXPECT_EQ(Words(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(shared)),
              Words(two.begin(), two.begin() + static_cast<std::ptrdiff_t>(shared)));
  }
}

// The process that measures the memory of a step has the study's folder on its command line. An ended process that
// nobody has waited for has none.
bool measures_memory_in(const std::string& folder) {
  for (const auto& process : fs::directory_iterator("/proc")) {
    std::ostringstream line;
    line << std::ifstream(process.path() / "cmdline").rdbuf();  // a process may end meanwhile; nothing is read then
    if (line.str().find(folder + "/timelines") != std::string::npos) return true;
  }
  return false;
}

TEST(Study, takes_its_running_command_line_along_when_it_is_killed) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "study";
  ChildProgram child(small_study(folder, {"--only", "memory_step", "--model", "small"}), "/dev/null", "/dev/null");
  while (!measures_memory_in(folder)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  child.signal(SIGKILL);
  EXPECT_EQ(child.wait().exit_code, 128 + SIGKILL);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (measures_memory_in(folder) && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(measures_memory_in(folder));
}

TEST(Study, stops_at_a_signal_and_says_how_to_go_on) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "study";
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    ChildProgram child(small_study(folder, {"--only", "memory_step", "--model", "small"}));
    while (!measures_memory_in(folder)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    child.signal(number);
    EXPECT_THAT(child.wait(),
                fails(128 + number, "give the same command again to go on with the study in '" + folder + "'"));
    EXPECT_FALSE(measures_memory_in(folder));
  }
}

class FinishedStudy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    temporary_ = new TemporaryFolder;
    first_ = new ProgramResult(run_program(study()));
  }
  static void TearDownTestSuite() {
    delete first_;
    delete temporary_;
  }
  static Words study(const Words& more = {}) {
    return small_study(folder(), with_options({"--only", "accumulation,warmup"}, more));
  }
  static std::string folder() { return *temporary_ / "study"; }
  static fs::path file(const std::string& name) { return fs::path(folder()) / name; }
  static void expect_refused(const Words& words, int exit_code, const std::string& message) {
    EXPECT_THAT(run_program(words), fails(exit_code, message)) << message;
  }

  inline static TemporaryFolder* temporary_ = nullptr;
  inline static ProgramResult* first_ = nullptr;
};

TEST_F(FinishedStudy, prints_its_answers_and_where_the_page_is) {
  EXPECT_EQ(first_->exit_code, 0) << first_->error;
  EXPECT_THAT(first_->output, HasSubstr(folder() + "/report.html"));
  expect_whole(folder());
}

TEST_F(FinishedStudy, measures_nothing_again) {
  const std::string rows = read_file(file("records/warmup.jsonl"), kMostBytes);
  const std::string log = read_file(file("log.jsonl"), kMostBytes);
  EXPECT_EQ(run_program(study()).exit_code, 0);
  EXPECT_EQ(read_file(file("records/warmup.jsonl"), kMostBytes), rows);
  EXPECT_EQ(read_file(file("log.jsonl"), kMostBytes), log);
}

TEST_F(FinishedStudy, writes_its_page_again_without_measuring) {
  fs::remove(file("report.html"));
  EXPECT_EQ(run_program({"study", "--no-run", "--output", folder()}).exit_code, 0);
  expect_whole(folder());
}

TEST_F(FinishedStudy, refuses_other_options_with_the_difference) {
  expect_refused(study({"--limit", "9s"}), 2, "limit_seconds 9.0 instead of 8.0");
  expect_refused(study({"--without", "warmup"}), 2, R"(without "warmup" instead of "")");
  expect_refused(study({"--limit", "9s"}), 2, "or give --restart");
}

TEST_F(FinishedStudy, refuses_the_rows_of_another_machine) {
  const std::string rows = read_file(file("records/devices.jsonl"), kMostBytes);
  std::string others;
  for (const std::string& line : complete_lines(file("records/devices.jsonl"))) {
    json row = json::parse(line);
    if (row["kind"] == "cpu") row["name"] = "an abacus";
    others += row.dump() + "\n";
  }
  write_file(file("records/devices.jsonl"), others);
  expect_refused(study(), 2, "has a study of 'an abacus'");
  write_file(file("records/devices.jsonl"), rows);
}

TEST_F(FinishedStudy, runs_no_command_line_that_its_folder_adds) {
  const std::string text = read_file(file("study.json"), kMostBytes);
  const std::string outside = *temporary_ / "outside.json";
  json manifest = json::parse(text);
  manifest["parts"].back()["commands"].push_back(
      {{"arguments", {"version", "--output", outside}}, {"rows", 0}, {"predicted_seconds", 1}});
  write_file(file("study.json"), manifest.dump());
  expect_refused(study(), 1, "of the part 'accumulation', command 4 is 'version --output " + outside);
  EXPECT_FALSE(fs::exists(outside));
  // As if the study had been stopped before its last part.
  manifest = json::parse(text);
  manifest["parts"].back()["commands"][0]["arguments"] = {"version", "--output", outside};
  write_file(file("study.json"), manifest.dump());
  const std::string log = read_file(file("log.jsonl"), kMostBytes);
  write_file(file("log.jsonl"), complete_lines(file("log.jsonl")).front() + "\n");
  expect_refused(study(), 1, "instead of 'precision' with 0 rows");
  EXPECT_FALSE(fs::exists(outside));
  write_file(file("log.jsonl"), log);
  write_file(file("study.json"), text);
  EXPECT_EQ(run_program(study()).exit_code, 0);
}

TEST_F(FinishedStudy, reads_and_writes_nothing_through_links) {
  const fs::path outside = temporary_->path() / "elsewhere";
  const Words log = complete_lines(file("log.jsonl"));
  fs::create_directory(outside);
  write_file(outside / "file", "{\"secret\":1}\n");
  for (const char* name : {"study.json", "log.jsonl", "report.html", "README.md", "answers.md", "tables",
                           "tables/warmup.md", "records", "records/warmup.jsonl", "pictures", "timelines"}) {
    const fs::path place = file(name), aside = temporary_->path() / "aside";
    const bool is_folder = fs::is_directory(place);
    fs::rename(place, aside);
    fs::create_symlink(is_folder ? outside : outside / "file", place);
    for (const Words& more : {Words{}, Words{"--no-run"}, Words{"--restart"}})
      expect_refused(study(more), 1, "'" + place.string() + "' is a symbolic link");
    EXPECT_EQ(read_file(outside / "file", 100), "{\"secret\":1}\n") << name;
    EXPECT_EQ(std::ranges::distance(fs::directory_iterator(outside)), 1) << name;
    fs::remove(place);
    fs::rename(aside, place);
  }
  EXPECT_EQ(run_program(study()).exit_code, 0) << "--restart removes nothing where it is refused";
  EXPECT_EQ(complete_lines(file("log.jsonl")), log);
}

TEST_F(FinishedStudy, refuses_records_that_lost_rows_or_are_damaged) {
  const std::string rows = read_file(file("records/warmup.jsonl"), kMostBytes);
  write_file(file("records/warmup.jsonl"), "");
  expect_refused(study(), 1, "records/warmup.jsonl has 0 rows, and log.jsonl says that");
  write_file(file("records/warmup.jsonl"), "{\n" + rows);
  expect_refused(study(), 1, "is damaged: line 1");
  write_file(file("records/warmup.jsonl"), rows);
}

TEST_F(FinishedStudy, measures_the_row_of_an_incomplete_line_again) {
  const std::string rows = read_file(file("records/warmup.jsonl"), kMostBytes);
  write_file(file("records/warmup.jsonl"), rows + R"({"mode":)");
  EXPECT_THAT(run_program(study()), warns("the last line of 'warmup.jsonl' was not complete"));
  EXPECT_EQ(read_file(file("records/warmup.jsonl"), kMostBytes), rows);
}

TEST(StudyCommand, goes_on_in_the_middle_of_a_sweep) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "study";
  const fs::path records = fs::path(folder) / "records" / "attention_grid.jsonl";
  const fs::path log = fs::path(folder) / "log.jsonl";
  const Words words = small_study(folder, {"--only", "attention_grid"});
  EXPECT_EQ(run_program(words).exit_code, 0);
  const Words rows = complete_lines(records);
  const Words settings = settings_of_rows(folder, "attention_grid");
  ASSERT_GE(rows.size(), 4U);
  // As if it had been killed after the second row of the first command line.
  write_file(log, complete_lines(log).front() + "\n");
  write_file(records, rows[0] + "\n" + rows[1] + "\n");
  EXPECT_EQ(run_program(words).exit_code, 0);
  EXPECT_EQ(complete_lines(records)[0], rows[0]);
  EXPECT_EQ(complete_lines(records)[1], rows[1]);
  EXPECT_EQ(settings_of_rows(folder, "attention_grid"), settings);
}

TEST(Skip, leaves_out_the_first_rows_of_every_sweep) {
  for (const Words& words : {Words{"bench"}, Words{"bench", "--cold"}, Words{"memory"}, Words{"profile"}}) {
    Words all = words;
    for (const char* word : {"--device", "cpu", "--model", "tiny", "--context", "8", "--batch", "1", "--dtype",
                             "fp32,bf16", "--steps", "1", "--warmup", "1", "--skip", "1", "--format", "jsonl"})
      all.emplace_back(word);
    const ProgramResult result = run_program(all);
    EXPECT_EQ(result.exit_code, 0) << words.back() << result.error;
    ASSERT_EQ(std::ranges::count(result.output, '\n'), 1) << words.back();
    EXPECT_EQ(json::parse(result.output)["dtype"], "bf16") << words.back();
  }
  const ProgramResult attention =
      run_program({"attention", "--device", "cpu", "--threads", "1", "--d-model", "16", "--sequence", "8,16,32",
                   "--attention", "flash", "--steps", "1", "--skip", "2", "--format", "jsonl"});
  ASSERT_EQ(std::ranges::count(attention.output, '\n'), 1) << attention.error;
  EXPECT_EQ(json::parse(attention.output)["context"], 32);
}

TEST(Skip, is_refused_past_the_end_of_the_sweep) {
  EXPECT_THAT(run_program({"bench", "--device", "cpu", "--dtype", "fp32,bf16", "--skip", "2"}),
              fails(2, "--skip: 2 is out of range; the sweep has 2 rows"));
}

TEST(StudyCommand, goes_on_after_a_command_line_that_fails) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "study";
  const Words words = small_study(folder, {"--only", "memory_step,ladder"});
  EXPECT_EQ(run_program(words).exit_code, 0);
  // A study that was stopped before its parts, and where the file of a timeline cannot be written.
  const fs::path timeline = fs::path(folder) / "timelines" / "memory_step.csv";
  fs::remove(timeline);
  fs::create_directory(timeline);
  fs::remove(fs::path(folder) / "records" / "memory_step.jsonl");
  fs::remove(fs::path(folder) / "records" / "ladder.jsonl");
  write_file(fs::path(folder) / "log.jsonl", complete_lines(fs::path(folder) / "log.jsonl").front() + "\n");
  EXPECT_THAT(run_program(words),
              prints(AllOf(HasSubstr("These command lines failed"), HasSubstr("memory_step, command 1: exit"),
                           HasSubstr("timelines/memory_step.csv")),
                     1));
  EXPECT_FALSE(complete_lines(fs::path(folder) / "records" / "ladder.jsonl").empty());
  EXPECT_THAT(read_file(fs::path(folder) / "README.md", kMostBytes), HasSubstr("What failed"));
  fs::remove(timeline);
  const ProgramResult again = run_program(words);  // which tries it again
  EXPECT_EQ(again.exit_code, 0) << again.error;
  EXPECT_THAT(again.output, Not(HasSubstr("These command lines failed")));
  EXPECT_EQ(complete_lines(fs::path(folder) / "records" / "memory_step.jsonl").size(), 1U);
}

TEST(StudyCommand, plans_a_whole_edition_without_a_card) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "b200";
  const Words study = {
      "study",      "--like",
      "cs336-2026", "--plan-only",
      "--only",     "sizes,accumulation,memory_step,attention_grid,accounting,checkpointing,ranks,calculations",
      "--output",   folder};
  EXPECT_THAT(output_of(run_program(study)), AllOf(HasSubstr("planned for B200, not measured"), Not(HasSubstr("nan"))));
  const std::string readme = read_file(fs::path(folder) / "README.md", kMostBytes);
  EXPECT_THAT(readme,
              AllOf(HasSubstr("Planned for B200"), HasSubstr("ridgepoint study --like cs336-2026 --card B200")));
  for (const char* part :
       {"sizes", "memory_step", "attention_grid", "accounting", "checkpointing", "ranks", "calculations"}) {
    EXPECT_FALSE(complete_lines(fs::path(folder) / "records" / fmt::format("{}.jsonl", part)).empty()) << part;
  }
  EXPECT_FALSE(fs::exists(fs::path(folder) / "records/devices.jsonl")) << "it measures no device";
  EXPECT_EQ(run_program(study).exit_code, 0) << "it goes on where nothing is left to do";
}

TEST(StudyCommand, refuses_what_it_cannot_measure_or_write) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "study";
  const auto error_of = [&](const Words& more) {
    const ProgramResult result = run_program(small_study(folder, more));
    EXPECT_NE(result.exit_code, 0);
    return result.error;
  };
  EXPECT_THAT(error_of({"--device", "null"}), HasSubstr("a study runs on cpu or cuda, not on 'null'"));
  EXPECT_THAT(error_of({"--only", "sizes,weather"}), HasSubstr("--only: 'weather' is no part of a study"));
  EXPECT_THAT(error_of({"--only", "sizes,ranks"}), HasSubstr("--only: ranks need several ranks; add --ranks 2"));
  EXPECT_THAT(error_of({"--like", "cs336"}), HasSubstr("--like: 'cs336' is no edition of the exercise; "));
  EXPECT_THAT(error_of({"--like", "cs336-2025"}), HasSubstr("--model: cs336-2025 names its models"));
  EXPECT_THAT(error_of({"--card", "h100"}), HasSubstr("--card and --plan-only run nothing, and --device runs"));
  EXPECT_THAT(run_program({"study", "--plan-only", "--output", folder}).error,
              HasSubstr("name the card to plan for, as in --card h100"));
  EXPECT_THAT(run_program({"study", "--card", "h1000", "--output", folder}).error, HasSubstr("'h1000' is unknown"));
  EXPECT_THAT(error_of({"--limit", "soon"}), HasSubstr("--limit"));
  EXPECT_THAT(error_of({"--config-override", "vocab_size=9"}), HasSubstr("'tiny' is a preset, which has none"));
  EXPECT_THAT(error_of({"--model", "gpt2", "--config-override", "vocab"}), HasSubstr("--config-override"));
  EXPECT_THAT(error_of({"--model", "gpt2", "--config-override", "layers=9"}), HasSubstr("'layers' is no field"));
  EXPECT_THAT(error_of({"--output", "/proc/study"}), HasSubstr("cannot make the folder '/proc/study'"));
  write_file(temporary.path() / "notes", "");
  EXPECT_THAT(error_of({"--output", temporary.path().string()}), HasSubstr("has files that are not a study's"));
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace ridgepoint
