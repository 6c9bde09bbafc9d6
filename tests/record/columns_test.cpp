// Every row of settings.def and measures.def is in all places that are made from the tables.
#include "record/columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/descriptions/description.h"
#include "core/files/file.h"
#include "core/text/json.h"
#include "inspect/compare/compare_records.h"
#include "record/fields.h"
#include "record/record_table.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "support/records/sample_records.h"
#include "tables/table/render.h"

namespace ridgepoint {
namespace {

Json& at_path(Json& record, std::string_view path) {
  const FieldPlace place = place_of_field(path);
  return place.object.empty() ? record[place.name] : record[place.object][place.name];
}

// Two values of a setting that differ, and that its cell tells apart.
std::pair<Json, Json> two_values(const Setting& setting, const Json& now) {
  const std::map<std::string_view, std::pair<Json, Json>> chosen = {
      {"dtype", {"fp32", "bf16"}},
      {"compile", {"off", "full"}},
      {"allocator", {"caching", "arena"}},
      {"attention", {"composite", "flash"}},
      {"checkpoint", {"none", "block"}},
      {"optimizer", {"adamw", "sgd"}},
      {"mode", {"forward", "step"}},
      {"frozen", {Json::array(), {"lm_head"}}},
      {"base_weights", {"as-is", "nf4"}},
      {"offload", {"none", "optimizer"}},
      {"no_decay", {Json::array(), {"vectors"}}},
      {"parallel.shard", {"none", "optimizer"}},
      {"command", {"bench", "profile"}},
      {"model.kv_heads", {1, 2}},
  };
  if (const auto found = chosen.find(setting.path); found != chosen.end()) return found->second;
  if (now.is_boolean()) return {true, false};
  const std::vector<std::string_view> flags = {"causal", "cold_cache", "detect_anomaly", "keep_output",
                                               "parallel.overlap"};
  if (std::ranges::find(flags, setting.path) != flags.end()) return {true, false};
  if (setting.kind == Kind::text) return {"one", "two"};
  return {3, 5};
}

// A record in which the setting counts: of attention where only its calls have it, of a plan for what plans have.
Record record_with(const Setting& setting) {
  const std::vector<std::string_view> of_calls = {"keys", "causal", "window", "soft_cap", "model.kv_heads"};
  const bool is_of_calls = setting.path.empty() || std::ranges::find(of_calls, setting.path) != of_calls.end();
  Record record = is_of_calls ? attention_record() : sample_record();
  if (setting.path == "as" || setting.path == "card" || setting.path == "keep_output") {
    record.experiment = Experiment::plan;
    record.plan.emplace();
  }
  record.model.name = "custom";
  record.model.heads = 4;
  return record;
}

std::vector<Record> records_that_differ_in(const Setting& setting) {
  Json json = parse_json(to_json(record_with(setting)));
  const std::string path = setting.path.empty() ? "context" : std::string(setting.path);
  const auto [one, other] = two_values(setting, at_path(json, path));
  std::vector<Record> records;
  for (const Json& value : {one, other}) {
    at_path(json, path) = value;
    records.push_back(record_from_json(dump_json(json)));
  }
  return records;
}

TEST(SettingRows, are_read_written_matched_and_shown) {
  const Record any;
  std::vector<std::string> fields;
  visit_fields(any, [&](std::string_view path, const auto&) { fields.emplace_back(path); });
  for (const Setting& setting : record_settings()) {
    SCOPED_TRACE(std::string(setting.path) + " / " + std::string(setting.heading));
    if (setting.path.empty() && setting.heading.empty()) continue;  // an option that no record has
    const std::vector<Record> records = records_that_differ_in(setting);
    EXPECT_NE(to_json(records[0]), to_json(records[1])) << "JSON does not have it";
    if (!setting.path.empty()) {
      EXPECT_THAT(fields, Contains(std::string(setting.path))) << "CSV does not have it";
      EXPECT_NE(setting.value(records[0]), setting.value(records[1]));
      EXPECT_EQ(setting.is_matched,
                configuration_of(records[0], std::nullopt, false) != configuration_of(records[1], std::nullopt, false));
    }
    if (setting.is_column()) {
      EXPECT_NE(setting.cell(records[0]), setting.cell(records[1]));
      EXPECT_THAT(tables::leading_settings(records), Contains(&setting)) << "a sweep of it has no column";
      EXPECT_EQ(find_setting(setting.heading), &setting) << "--baseline and --pivot do not find it";
    }
    const std::string place = "\"path\":\"" + std::string(setting.path) + "\"";
    if (!setting.path.empty() && !setting.heading.empty()) {
      EXPECT_THAT(page_fields(), HasSubstr(place));
    }
  }
}

TEST(SettingRows, follow_rows_that_there_are) {
  for (const Setting& setting : record_settings()) {
    if (setting.follows.empty()) continue;
    EXPECT_EQ(std::ranges::count(record_settings(), setting.follows, &Setting::path), 1) << setting.path;
  }
}

TEST(SettingRows, that_another_setting_decides_do_not_keep_rows_apart) {
  std::vector<Record> records(2, sample_record());
  records[1].compile = Compile::full;
  records[1].allocator = default_allocator(Compile::full);
  const Setting& allocator = *find_setting("allocator");
  EXPECT_TRUE(varies(records, allocator));
  EXPECT_TRUE(is_implied(records, allocator));
  records[1].allocator = AllocatorKind::caching;
  EXPECT_FALSE(is_implied(records, allocator));
}

TEST(SettingRows, that_do_not_apply_to_some_rows_do_not_keep_rows_apart) {
  std::vector<Record> records(2, sample_record());
  records[1].checkpoint_segment = 1;
  EXPECT_FALSE(varies(records, *find_setting("segment")));
  records.push_back(sample_record());
  records[2].checkpoint_segment = 2;
  EXPECT_TRUE(varies(records, *find_setting("segment")));
}

TEST(MeasureRows, have_a_heading_for_each_name_and_a_cell_for_each_record) {
  for (const Measure& measure : record_measures()) {
    EXPECT_EQ(measure.name.empty(), measure.heading.empty()) << measure.path << measure.name;
    EXPECT_FALSE(measure.path.empty() && measure.name.empty());
    if (measure.is_statistics) continue;
    for (const Record& record : {sample_record(), out_of_memory_record(), attention_record(), Record()})
      EXPECT_FALSE(measure.cell(record).empty()) << measure.path << ' ' << measure.name;
  }
}

TEST(MeasureRows, with_a_label_are_figures_of_the_page) {
  for (const Measure& measure : record_measures()) {
    if (measure.path.empty() || measure.label.empty()) continue;
    EXPECT_THAT(page_fields(), HasSubstr("\"path\":\"" + std::string(measure.path) + "\""));
  }
}

TEST(MeasureRows, are_columns_of_the_commands_that_fill_them) {
  const std::vector<std::string_view> of_plans = column_names(Experiment::plan);
  EXPECT_THAT(of_plans, Contains("predicted_ms"));
  EXPECT_THAT(of_plans, Not(Contains("mean")));
  EXPECT_THAT(of_plans, Not(Contains("allocated_at_end")));
  EXPECT_THAT(column_names(Experiment::bench), Not(Contains("predicted_ms")));
  EXPECT_THAT(column_names(Experiment::memory), Contains("activation"));
  EXPECT_THAT(column_names(Experiment::attention), Contains("runs_as"));
  for (const Measure& measure : record_measures()) {
    if (measure.name.empty()) continue;
    const bool is_offered = std::ranges::any_of(
        kAllExperiments, [&](Experiment each) { return std::ranges::count(column_names(each), measure.name) > 0; });
    EXPECT_TRUE(is_offered) << measure.name;
  }
}

TEST(MeasureRows, name_fields_of_the_record) {
  const Record any;
  std::vector<std::string> fields;
  visit_fields(any, [&](std::string_view path, const auto&) { fields.emplace_back(path); });
  std::vector<std::string> once = fields;
  std::ranges::sort(once);
  EXPECT_EQ(std::ranges::adjacent_find(once), once.end()) << "a field has two rows";
  for (const Measure& measure : record_measures()) {
    if (measure.path.empty()) continue;
    EXPECT_THAT(fields, Contains(std::string(measure.path) + (measure.is_statistics ? ".mean" : "")));
  }
}

// The commands whose help has the option, by its words or in its group: `published --model` is another option.
std::string commands_of(const Setting& setting) {
  static const std::vector<cli::CommandDescription> all = cli::describe(cli::all_commands());
  std::vector<std::string> commands;
  for (const cli::CommandDescription& command : all) {
    const bool takes_it = std::ranges::any_of(command.options, [&](const cli::OptionDescription& option) {
      const Option& own =
          command.name == "attention" && !setting.call_option.help.empty() ? setting.call_option : setting.option;
      const bool has_name = std::ranges::count(option.names, fmt::format("--{}", setting.option.name())) > 0;
      return has_name && (option.group == own.group || option.help.starts_with(own.help));
    });
    if (takes_it) commands.push_back(command.name);
  }
  return fmt::format("{}", fmt::join(commands, ", "));
}

// To renew the documentation: copy what this test prints.
TEST(Fields, are_in_the_documentation) {
  const std::string page = read_file(source_folder() / "docs/record.md", 1 << 20);
  const std::string begin = "measures.def -->\n", end = "<!-- up to here -->";
  const std::size_t at = page.find(begin) + begin.size();
  EXPECT_EQ(page.substr(at, page.find(end) - at), documented_fields(commands_of))
      << "write this text to docs/record.md";
  for (const Setting& setting : record_settings())
    EXPECT_TRUE(setting.path.empty() || !setting.about.empty()) << setting.path << " is not explained";
}

// To renew the file: copy what this test prints.
TEST(Fields, of_the_page_are_those_of_the_tables) {
  EXPECT_EQ(read_file(source_folder() / "web/src/records/fields.json", 1 << 20), page_fields())
      << "write this text to web/src/records/fields.json and run ./dev web";
}

}  // namespace
}  // namespace ridgepoint
