// The page of a study: that of `ridgepoint report`, with the answers at its top and a section for each part.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "measure/published/compare.h"
#include "measure/published/published_rows.h"
#include "ridgepoint/record.h"
#include "views/report/report_page.h"
#include "views/study/parts.h"

namespace ridgepoint::views {
namespace {

// The first of these figures that a published row has, in milliseconds.
std::optional<double> time_of(const PublishedRow& row, std::initializer_list<std::string_view> quantities) {
  for (const std::string_view quantity : quantities) {
    for (const PublishedFigure& figure : row.figures) {
      if (figure.quantity == quantity) return figure.value;
    }
  }
  return std::nullopt;
}

// A published row that stands beside `record`, as a record with the settings of that one and the published times.
std::optional<Json> published_record(const Record& record, const Comparable& published) {
  const PublishedRow& row = *published.row;
  const bool is_attention = record.experiment == Experiment::attention;
  Json figures = {
      {"schema", kRecordSchema},
      {"command", name(record.experiment)},
      {"engine", fmt::format("{} ({})", row.study, published.label)},
      {"mode", name(record.mode)},
      {"dtype", name(record.dtype)},
      {"batch", record.batch},
      {"context", record.context},
      {"status", row.status},
      {"model",
       {{"name", record.model.name}, {"parameters", record.model.parameters}, {"d_model", record.model.d_model}}}};
  bool has_time = false;
  const auto add = [&](const char* key, const std::optional<double>& time) {
    if (time) figures[key] = {{"median", *time}}, has_time = true;
  };
  if (is_attention) {
    if (record.attention) figures["attention"] = name(*record.attention);
    add("forward_ms", time_of(row, {"forward_ms"}));
    add("backward_ms", time_of(row, {"backward_ms"}));
  } else {
    add("time_ms", time_of(row, {"median_ms", "mean_ms", "time_ms"}));
  }
  return has_time || row.status == "oom" ? std::optional(figures) : std::nullopt;
}

// The published figures beside the rows of a part, each once.
ReportFile published_beside(const std::vector<Json>& rows) {
  ReportFile file{.name = "published", .records = {}, .rows = {}, .is_published = true};
  std::vector<const PublishedRow*> taken;
  for (const Json& row : rows) {
    const Record record = record_from_json(dump_json(row));
    for (const Comparable& comparable : comparable_rows(record, published_rows())) {
      if (std::ranges::find(taken, comparable.row) != taken.end()) continue;
      taken.push_back(comparable.row);
      if (std::optional<Json> found = published_record(record, comparable)) file.records.push_back(std::move(*found));
    }
  }
  return file;
}

Json part_json(const StudyPartPlan& part, const std::string& folder) {
  Json commands = Json::array();
  for (const StudyCommand& command : part.commands) commands.push_back(command_text(command, folder));
  return {{"id", name(part.part)}, {"title", part.title}, {"commands", std::move(commands)}};
}

Json answers_json(const std::vector<StudyAnswer>& answers) {
  constexpr std::array kVerdicts = {"confirmed", "contradicted", "not comparable"};
  Json all = Json::array();
  for (const StudyAnswer& answer : answers) {
    Json evidence = Json::array();
    for (const StudyEvidence& each : answer.evidence)
      evidence.push_back({{"part", name(each.part)}, {"text", each.text}});
    Json elsewhere = Json::array();
    for (const StudyClaim& claim : answer.elsewhere) {
      elsewhere.push_back({{"source", claim.source},
                           {"text", claim.text},
                           {"verdict", kVerdicts[static_cast<std::size_t>(claim.verdict)]},
                           {"reason", claim.reason}});
    }
    all.push_back({{"topic", answer.topic},
                   {"question", answer.question},
                   {"sentence", answer.sentence},
                   {"evidence", std::move(evidence)},
                   {"elsewhere", std::move(elsewhere)}});
  }
  return all;
}

}  // namespace

std::string study_page(const StudyDocument& document) {
  std::vector<ReportFile> files;
  for (const StudyPartPlan& part : document.parts) {
    const auto rows = document.rows.find(part.part);
    if (rows == document.rows.end()) continue;
    ReportFile file{.name = fmt::format("{}.jsonl", name(part.part)), .records = {}, .rows = {}};
    file.part = part_json(part, document.folder);
    const bool has_records = rows->second.front().contains("schema");
    (has_records ? file.records : file.rows) = has_records ? rows->second : flat_rows(part.part, rows->second);
    files.push_back(std::move(file));
    if (part.part == StudyPart::sizes || part.part == StudyPart::attention_grid) {
      ReportFile published = published_beside(rows->second);
      published.part = files.back().part;
      if (!published.records.empty()) files.push_back(std::move(published));
    }
    const std::filesystem::path timeline =
        std::filesystem::path(document.folder) / "timelines" / fmt::format("{}.csv", name(part.part));
    if (std::filesystem::exists(timeline)) files.push_back(read_report_file(timeline));
  }
  const std::string device = document.configuration.value("device", "");
  return report_page(files, fmt::format("A study of training steps on {}", device), answers_json(document.answers));
}

}  // namespace ridgepoint::views
