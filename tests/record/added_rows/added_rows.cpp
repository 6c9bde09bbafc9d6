// A setting and a figure that tables have, are everywhere: this program has the rows of settings.def and measures.def
// beside this file, and nothing else says anything of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/application.h"
#include "cli/descriptions/command.h"
#include "cli/descriptions/completion.h"
#include "cli/options/output.h"
#include "cli/options/run_options.h"
#include "cli/terminal/host.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "core/text/json.h"
#include "inspect/attention/attention_tables.h"
#include "inspect/compare/compare_records.h"
#include "inspect/published/compare.h"
#include "record/columns.h"
#include "record/record_table.h"
#include "ridgepoint/core/error.h"
#include "run/session/session.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"
#include "tables/table/render.h"

namespace ridgepoint::cli {

std::unique_ptr<Command> make_man();

namespace {

// A command that runs models as bench does, but for the run: its figure is ten times the setting, and a run of a
// lower setting is faster.
class Runs : public Command {
 public:
  std::string_view name() const override { return "runs"; }
  std::string_view summary() const override { return "make records"; }
  std::string_view examples() const override { return "ridgepoint runs"; }
  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    output_.add_to(app);
    output_.add_columns_to(app, Experiment::bench);
    app.add_option("--baseline", baseline_, "as bench has it")->group("Output");
  }
  int run() override {
    RecordWriter writer(output_);
    std::vector<Record> records;
    for (const RunConfig& config : run_options_.expand()) {
      Record& record = records.emplace_back(describe_run(config, Experiment::bench));
      record.added_figure = 10.0 * static_cast<double>(config.added_setting);
      record.training_step->time_ms = ridgepoint::describe({*record.added_figure, *record.added_figure});
    }
    if (!baseline_.empty()) writer.compare_with(tables::parse_baseline(baseline_, records));
    for (const Record& record : records) writer.add(record);
    writer.finish();
    return kExitOk;
  }

 private:
  RunOptions run_options_;
  OutputOptions output_;
  std::string baseline_;
};

std::unique_ptr<Command> make_runs() { return std::make_unique<Runs>(); }

struct Ran {
  CommandEnd end;
  std::string output;
};
Ran try_to_run(const std::vector<std::string>& words) {
  Host host;
  const CommandEnd end = run_within(host, words);
  return {end, host.output};
}
std::string run(const std::vector<std::string>& words) {
  const Ran ran = try_to_run(words);
  EXPECT_EQ(ran.end.exit_code, kExitOk) << ran.end.problem;
  return ran.output;
}
std::string runs(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"runs", "--device", "cpu"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}
// Records by a command line, read back from its JSON.
std::vector<Record> records_of(std::vector<std::string> more) {
  more.insert(more.end(), {"--format", "jsonl"});
  const TemporaryFolder folder;
  write_file(folder / "rows.jsonl", runs(more));
  return read_records(folder / "rows.jsonl");
}

std::string line_with(const std::string& text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

TEST(AddedSetting, is_an_option_in_help_completion_and_manual) {
  EXPECT_THAT(line_with(run({"runs", "--help"}), "--added-setting"),
              AllOf(HasSubstr("--added-setting N"), HasSubstr("what a test adds [3]")));
  const std::vector<CommandDescription> commands = describe(all_commands());
  for (const auto completion : {bash_completion, zsh_completion, fish_completion})
    EXPECT_THAT(completion(commands), HasSubstr("added-setting"));
  EXPECT_THAT(json_description(commands), HasSubstr("\"--added-setting\""));
  const TemporaryFolder folder;
  run({"man", folder.path().string()});
  EXPECT_THAT(read_file(folder / "ridgepoint-runs.1", 1 << 20),
              AllOf(HasSubstr("\\fB\\-\\-added\\-setting\\fR"), HasSubstr("what a test adds")));
}

TEST(AddedSetting, is_read_by_its_names_and_rules) {
  EXPECT_EQ(records_of({}).front().added_setting, 3);
  const std::vector<Record> swept = records_of({"--added-setting", "4:16:*2"});
  ASSERT_THAT(swept, SizeIs(3));
  EXPECT_EQ(swept[2].added_setting, 16);
  EXPECT_EQ(records_of({"--size_of_test", "9"}).front().added_setting, 9);
  const auto problem = [](const char* value) {
    return try_to_run({"runs", "--device", "cpu", "--added-setting", value}).end.problem;
  };
  EXPECT_THAT(problem("0"), HasSubstr("--added-setting"));
  EXPECT_THAT(problem("1001"), HasSubstr("1000"));
  EXPECT_THAT(problem("x"), HasSubstr("--added-setting"));
}

TEST(AddedRows, are_in_json_and_its_reader) {
  const Json json = parse_json(runs({"--added-setting", "4", "--format", "jsonl"}));
  EXPECT_EQ(json.at("added_setting"), 4);
  EXPECT_EQ(json.at("added_figure"), 40.0);
  const Record record = record_from_json(dump_json(json));
  EXPECT_EQ(record.added_setting, 4);
  EXPECT_EQ(record.added_figure, 40);
  const auto refused = [&](const char* field, const Json& value, const char* why) {
    Json wrong = json;
    wrong[field] = value;
    EXPECT_THAT([&] { record_from_json(dump_json(wrong)); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused("added_setting", "four", "field 'added_setting' must be a whole number");
  refused("added_figure", -1, "field 'added_figure' must be 0 at least");
}

TEST(AddedRows, are_in_csv_and_its_reader) {
  const TemporaryFolder folder;
  write_file(folder / "rows.csv", runs({"--added-setting", "4,8", "--format", "csv"}));
  write_file(folder / "map.json", R"({"added_setting": "added_setting", "added_figure": "added_figure",
                                      "time_ms.samples": "time_ms.samples"})");
  const std::vector<Record> records = read_record_file(folder / "rows.csv", (folder / "map.json").string()).records;
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[1].added_setting, 8);
  EXPECT_EQ(records[1].added_figure, 80);
}

TEST(AddedRows, are_columns_of_tables_and_of_columns) {
  const std::string swept = runs({"--added-setting", "4,8", "--format", "table"});
  EXPECT_THAT(line_with(swept, "mean ms"), AllOf(HasSubstr("added size  "), HasSubstr("added ms")));
  EXPECT_THAT(swept, HasSubstr("80.00"));
  const std::string chosen = runs({"--format", "table", "--columns", "added_figure,added-setting"});
  EXPECT_THAT(line_with(chosen, "added ms"), AllOf(HasSubstr("added size  "), Not(HasSubstr("mean ms"))));
  EXPECT_THAT(column_names(Experiment::bench), Contains("added_figure"));
  EXPECT_THAT(column_names(Experiment::plan), Not(Contains("added_figure")));
}

TEST(AddedSetting, is_in_the_summary_line_where_it_is_not_usual) {
  EXPECT_THAT(runs({"--added-setting", "4", "--format", "table"}), HasSubstr(", added 4"));
  EXPECT_THAT(runs({"--format", "table"}), Not(HasSubstr("added 3")));
}

TEST(AddedSetting, keeps_rows_of_compared_files_apart) {
  const auto file = [](const char* name, const char* values) {
    RecordFile read{.path = name, .records = records_of({"--added-setting", values})};
    for (Record& record : read.records) record.device.name = "Test Processor";
    return read;
  };
  const std::vector<RecordFile> files = {file("a", "4,8"), file("b", "8,4")};
  const RecordComparison comparison = compare_files(files, {});
  ASSERT_THAT(comparison.rows, SizeIs(2));
  for (const ComparedRow& row : comparison.rows) EXPECT_EQ(row.baseline.added_setting, row.record.added_setting);
  const std::vector<RecordFile> others = {file("a", "4"), file("b", "5")};
  EXPECT_THAT(compare_files(others, {}).warnings,
              ElementsAre(HasSubstr("the files differ in added_setting (4 and 5)")));
}

TEST(AddedSetting, is_a_baseline_and_keeps_rows_apart_from_those_of_others) {
  EXPECT_THAT(runs({"--added-setting", "4,8", "--baseline", "added-setting=8", "--format", "table"}),
              AllOf(HasSubstr("speedup over added size 8"), HasSubstr("2.00x")));
  const auto with = [](Compile level, std::int64_t value) {
    Record record = sample_record();
    record.compile = level;
    record.allocator = default_allocator(level);
    record.added_setting = value;
    return record;
  };
  const std::vector<Record> records = {with(Compile::off, 4), with(Compile::full, 4), with(Compile::full, 8)};
  const tables::Page page =
      tables::records_page(records, tables::Format::table, {}, tables::parse_baseline("compile=off", records));
  const std::string text = tables::render(tables::Format::table, page, 400);
  EXPECT_THAT(text, AllOf(ContainsRegex("off +step +4 +1\\.00x"), ContainsRegex("full +step +4 +1\\.00x")));
  EXPECT_THAT(text, ContainsRegex("full +step +8 +- ")) << "no run without compilation has this setting";
}

TEST(AddedSetting, has_the_columns_or_the_rows_of_a_pivot) {
  std::vector<Record> records(2, attention_record());
  records[0].added_setting = 4;
  records[1].added_setting = 8;
  const auto pivot = [&](const char* column) {
    return render(tables::Format::csv, pivot_page(records, {column, ""}, tables::Format::csv));
  };
  EXPECT_THAT(pivot("added-setting"), HasSubstr(",4,4.of_previous_row,8,"));
  EXPECT_THAT(pivot("attention"),
              AllOf(HasSubstr("metric,added_size,"), HasSubstr("forward_ms,4,"), HasSubstr("forward_ms,8,")));
}

TEST(AddedSetting, keeps_runs_apart_from_published_ones) {
  Record record = attention_record(AttentionVariant::composite, 4096);
  record.added_setting = 3;
  EXPECT_THAT(comparable_rows(record, published_rows()), Not(IsEmpty()));
  record.added_setting = 4;
  EXPECT_THAT(comparable_rows(record, published_rows()), IsEmpty());
}

TEST(AddedRows, are_fields_of_the_page) {
  const Json fields = parse_json(page_fields());
  EXPECT_EQ(fields.at("settings").back(), Json({{"path", "added_setting"},
                                                {"label", "size of a test"},
                                                {"kind", "count"},
                                                {"phrase", "added {}"},
                                                {"axis", true}}));
  EXPECT_EQ(fields.at("measures").back(),
            Json({{"path", "added_figure"}, {"label", "time of a test"}, {"kind", "ms"}}));
}

TEST(AddedRows, are_in_the_documentation) {
  const std::string text = documented_fields([](const Setting&) { return "runs"; });
  EXPECT_EQ(line_with(text, "added_setting"),
            "| `added_setting` | | `--added-setting` [3] | runs | a setting that a test adds |");
  EXPECT_EQ(line_with(text, "added_figure"), "| `added_figure` | ms | `added_figure` | a figure that a test adds |");
}

}  // namespace

std::span<const MakeCommand> command_makers() {
  static constexpr MakeCommand kMakers[] = {make_runs, make_man};
  return kMakers;
}

}  // namespace ridgepoint::cli
