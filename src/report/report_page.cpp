#include "report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/build_info.h"
#include "core/files/embedded_file.h"
#include "core/files/file.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "inspect/profile/pages/page.h"
#include "record/record_table.h"
#include "record/usual_values.h"
#include "ridgepoint/record/record.h"
#include "ridgepoint/report/views.h"
#include "tables/table/render.h"
#include "train/step_log.h"

namespace ridgepoint {

std::span<const EmbeddedFile> report_files();  // web/page.html, by cmake/embed.cmake

}  // namespace ridgepoint

namespace ridgepoint::tables {
namespace {

constexpr std::string_view kPlaceholder = "@ridgepoint-data@";

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

// The first member of each of the tables of `ridgepoint precision`.
bool is_precision_row(const Json& row) {
  if (!row.is_object() || row.empty() || row.contains("schema")) return false;
  const std::string& first = row.begin().key();
  const bool is_known = (first == "statement" && row.contains("relative_error")) ||
                        (first == "part" && row.contains("operands")) || (first == "module" && row.size() > 1);
  return is_known && std::ranges::none_of(row, [](const Json& cell) { return cell.is_structured(); });
}

bool is_trace(const Json& row) {
  return row.is_object() && !row.contains("schema") && row.contains("critical_path") && row.contains("kernels") &&
         row["kernels"].is_object();
}

// The rows become columns when all are read.
void add(ReportFile& file, Json row) {
  if (train::is_step(row)) {
    file.steps.push_back(std::move(row));
    return;
  }
  if (is_trace(row)) {
    file.traces.push_back(std::move(row));
    return;
  }
  if (is_precision_row(row)) {
    file.rows.push_back(std::move(row));
    return;
  }
  const bool has_command = row.is_object() && row.contains("command");
  static_cast<void>(record_from_json(dump_json(row)));  // throws unless it is a record
  use_usual_values(row);
  if (!has_command) throw Error("field 'command' is missing");
  file.records.push_back(std::move(row));
}

void add_array(ReportFile& file, std::string_view text) {
  Json rows = parse_json(text);
  std::size_t place = 1;
  try {
    for (Json& row : rows) {
      add(file, std::move(row));
      ++place;
    }
  } catch (const Error& error) {
    throw_error("record {}: {}", place, error.what());
  }
}

void add_lines(ReportFile& file, std::string_view text) {
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) continue;
    try {
      add(file, parse_json(line));
    } catch (const JsonError& error) {
      // An unfinished last line lacks its line break, and no row is valid JSON before its last character.
      if (end < text.size() || !error.is_cut_off()) throw_error("line {}: {}", number, error.what());
      file.is_truncated = true;
    } catch (const Error& error) {
      throw_error("line {}: {}", number, error.what());
    }
  }
}

// One value a step in each column that has any and is drawn.
Json step_columns(const Json& rows) {
  constexpr std::array<std::string_view, 4> kNotDrawn = {"micro_gradient_norm", "peak_allocated", "first_sequence",
                                                         "data"};
  const train::StepHistory history = train::step_history(std::vector<Json>(rows.begin(), rows.end()));
  Json columns = Json::object();
  for (const Json& step : to_json(train::step_table(history.steps, Format::json))) {
    for (const auto& [key, value] : step.items()) {
      if (std::ranges::find(kNotDrawn, key) == kNotDrawn.end()) columns[key].push_back(value);
    }
  }
  for (const std::string_view key : {"validation_loss", "gradient_norm", "noise_scale", "mfu"}) {
    if (std::ranges::all_of(columns[key], [](const Json& value) { return value.is_null(); })) columns.erase(key);
  }
  columns["returns"] = history.returns;
  return columns;
}

void read(ReportFile& file, std::string_view text) {
  constexpr std::string_view kTimelineBegin = "event,time_ms,";
  text = without_byte_order_mark(text);
  const std::string_view content = trimmed(text);
  if (content.starts_with(kTimelineBegin)) {
    file.timeline = timeline_columns(text);
  } else if (content.starts_with('[')) {
    add_array(file, text);
  } else if (content.starts_with('{')) {
    add_lines(file, text);
  } else {
    throw Error(
        "it has neither records or steps of a training (JSON, JSON Lines) nor a timeline (CSV); write them with "
        "--output rows.jsonl or memory --timeline run.csv");
  }
  if (!file.steps.is_null()) file.steps = step_columns(file.steps);
  if (file.timeline.is_null() && file.steps.is_null() && file.records.empty() && file.rows.empty() &&
      file.traces.empty()) {
    throw Error(file.is_truncated ? "its only row ends in the middle" : "it has no rows");
  }
}

}  // namespace

std::string json_for_html(const Json& json) {
  const std::string text = dump_json(json);
  std::string escaped;
  escaped.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i, 3);
    if (text[i] == '<') {
      escaped += "\\u003c";
    } else if (rest == "\u2028" || rest == "\u2029") {
      escaped += rest == "\u2028" ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      escaped += text[i];
    }
  }
  return escaped;
}

std::string report_page(std::span<const ReportFile> files, std::string_view title, const Json& answers) {
  Json data = {{"title", valid_utf8(title)},
               {"made_by", fmt::format("Made by ridgepoint {} ({}).", version(), revision())},
               {"answers", answers},
               {"files", Json::array()}};
  const auto add = [&](const ReportFile& file) {
    data["files"].push_back({{"name", file.name},
                             {"part", file.part},
                             {"caption", file.caption},
                             {"is_published", file.is_published},
                             {"records", file.records},
                             {"rows", file.rows},
                             {"timeline", file.timeline},
                             {"steps", file.steps}});
  };
  std::size_t traces = 0;
  for (const ReportFile& file : files) {
    if (file.traces.empty() || !file.records.empty() || !file.rows.empty()) add(file);
    for (const Json& trace : file.traces)
      for (const ReportFile& section : trace_section(trace, file.name, ++traces)) add(section);
  }
  const std::string_view page = report_files().front().text;
  const std::size_t place = page.find(kPlaceholder);
  if (place == std::string_view::npos) throw Error("web/page.html has no place for the data; build it with ./dev web");
  return fmt::format("{}{}{}", page.substr(0, place), json_for_html(data), page.substr(place + kPlaceholder.size()));
}

ReportFile read_report_file(const std::filesystem::path& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  const std::filesystem::path whole = std::filesystem::absolute(path / "").parent_path();
  const std::filesystem::path source = is_folder ? train::History::path_in(whole) : whole;
  const bool is_history = source == train::History::path_in(source.parent_path());
  const std::string text = read_file(is_folder ? source : path, kMaxFileBytes);
  ReportFile file{
      .name = valid_utf8((is_history ? source.parent_path() : source).filename().string()), .records = {}, .rows = {}};
  try {
    read(file, text);
  } catch (const Error& error) {
    throw_error("cannot show '{}': {}", path.string(), error.what());
  }
  return file;
}

}  // namespace ridgepoint::tables

namespace ridgepoint {

using tables::Format;

std::string to_text(const Record& record, std::size_t width) {
  return render(Format::table, tables::records_page(std::span(&record, 1), Format::table), width);
}

std::string to_text(const Profile& profile, std::size_t width) {
  return render(Format::table, tables::profile_page(std::span(&profile, 1), {}, Format::table), width);
}

}  // namespace ridgepoint
