#include "study/pages/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "core/text/throw_error.h"
#include "inspect/published/published_rows.h"
#include "report/report_page.h"
#include "ridgepoint/record/record.h"
#include "study/pages/parts.h"

namespace ridgepoint::tables {
namespace {

// A part of a study never runs a workload without a batch or a sequence.
void check_record(const Record& record) {
  if (record.status != RunStatus::ok) return;
  if (record.batch < 1 || record.context < 1)
    throw_error("the batch {} and the context {} must both be 1 at least; give --restart to measure again",
                record.batch, record.context);
}

// Views read the rows again, without a place to name.
void check_records(const StudyRows& all) {
  for (const auto& [part, rows] : all) {
    if (!has_records(part) && !has_records(rows)) continue;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      try {
        check_record(record_from_json(dump_json(rows[i])));
      } catch (const Error& error) {
        throw_error("records/{}.jsonl, line {}: {}", name(part), i + 1, error.what());
      }
    }
  }
}

// Parts whose rows have published figures beside them. `ladder` and others repeat rows of the same workloads.
constexpr std::array kPublishedParts = {StudyPart::sizes, StudyPart::contexts, StudyPart::attention_grid,
                                        StudyPart::compiled_attention};

constexpr std::size_t kMostEvents = 8000;  // of all timelines: some 1.6 MB of the page

// Left out of the page to keep it small: unknown values, and members that the lists of allocations repeat.
Json without_unknown(const Json& value) {
  if (!value.is_object()) return value;
  Json kept = Json::object();
  for (const auto& [key, inner] : value.items()) {
    if (inner.is_null()) continue;
    Json known = without_unknown(inner);
    if (!known.is_structured() || !known.empty()) kept[key] = std::move(known);
  }
  return kept;
}

// No chart or table shows more digits. Large numbers may be bytes, and stay.
void round_to_six_digits(Json& value) {
  if (value.is_structured()) {
    for (Json& inner : value) round_to_six_digits(inner);
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    const bool has_fraction = std::abs(number) > 1e-30 && std::abs(number) < 1e5;
    if (!has_fraction) return;
    const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(number))));
    value = std::round(number * scale) / scale;
  }
}

Json shown_record(const Json& row, StudyPart part) {
  Json record = without_unknown(row);
  round_to_six_digits(record);
  if (part == StudyPart::memory_peaks) record.erase("memory");  // the record's own fields have the peaks
  if (!field(record, "memory").is_object()) return record;
  Json& memory = record["memory"];
  memory.erase("before_backward");
  if (!field(memory, "phases").is_array()) return record;
  for (Json& phase : memory["phases"]) {
    if (phase.is_object()) phase.erase("groups");
  }
  return record;
}

// A published row that stands beside `record`, with the settings of that one.
Json published_record(const Record& record, const PublishedBeside& published) {
  Json figures = {
      {"schema", kRecordSchema},
      {"command", name(record.experiment)},
      {"engine", study_words(published.study)},
      {"compares", published.label},
      {"mode", name(record.mode)},
      {"dtype", name(record.dtype)},
      {"compile", name(record.compile)},
      {"batch", record.batch},
      {"context", record.context},
      {"status", published.is_out_of_memory ? "oom" : "ok"},
      {"model",
       {{"name", record.model.name}, {"parameters", record.model.parameters}, {"d_model", record.model.d_model}}}};
  const auto add = [&](const char* key, const std::optional<double>& median) {
    if (median) figures[key] = {{"median", *median}};
  };
  add("time_ms", published.time_ms);
  add("forward_ms", published.forward_ms);
  add("backward_ms", published.backward_ms);
  if (published.before_backward_bytes)
    figures["memory_bytes"]["before_backward"] = static_cast<std::int64_t>(*published.before_backward_bytes);
  if (published.peak_bytes)
    figures["memory_bytes"]["peak_allocated"] = static_cast<std::int64_t>(*published.peak_bytes);
  return figures;
}

ReportFile published_file(const std::vector<Json>& rows) {
  ReportFile file{.name = "published figures", .records = {}, .rows = {}, .is_published = true};
  const std::vector<Record> records = records_of(rows);
  for (const PublishedBeside& published : published_beside(records)) {
    const bool has_figure = published.time_ms || published.forward_ms || published.is_out_of_memory;
    if (has_figure) file.records.push_back(published_record(records[published.record], published));
  }
  return file;
}

Json part_json(const StudyPartPlan& part, const std::string& folder) {
  Json commands = Json::array();
  for (const StudyCommand& command : part.commands) commands.push_back(command_text(command, folder));
  return {{"id", name(part.part)}, {"title", part.title}, {"commands", std::move(commands)}};
}

// Those that were written.
std::vector<std::string> timelines_of(const StudyDocument& document, const StudyPartPlan& part) {
  std::vector<std::string> files = timeline_files(part);
  std::erase_if(files, [&](const std::string& file) {
    return !file.starts_with("timelines/") || !StudyFolder(document.folder).has(file);
  });
  return files;
}

// The files of a part: its rows, published figures beside them, its timelines.
void add_part(std::vector<ReportFile>& files, const StudyDocument& document, const StudyPartPlan& part,
              std::size_t most_events) {
  const std::vector<Json>& rows = document.rows.at(part.part);
  const std::size_t first = files.size();
  const std::string file_name = fmt::format("{}.jsonl", name(part.part));
  if (has_records(rows)) {
    ReportFile& file = files.emplace_back(ReportFile{.name = file_name, .records = {}, .rows = {}});
    for (const Json& row : rows) file.records.push_back(shown_record(row, part.part));
  } else {
    for (StudyRowGroup& group : shown_rows(document, part)) {
      files.push_back({.name = file_name, .records = {}, .rows = std::move(group.rows)});
      files.back().caption = std::move(group.caption);
    }
  }
  if (std::ranges::find(kPublishedParts, part.part) != kPublishedParts.end()) {
    ReportFile published = published_file(rows);
    if (!published.records.empty()) files.push_back(std::move(published));
  }
  const StudyFolder folder(document.folder);
  for (const std::string& file : timelines_of(document, part)) {
    files.push_back(read_report_file(folder.file(file)));
    files.back().timeline = thin_timeline(files.back().timeline, most_events);
  }
  for (std::size_t i = first; i < files.size(); ++i) files[i].part = part_json(part, document.folder);
}

Json answers_json(const std::vector<StudyAnswer>& answers) {
  Json all = Json::array();
  for (const StudyAnswer& answer : answers) {
    Json evidence = Json::array();
    for (const StudyEvidence& each : answer.evidence)
      evidence.push_back({{"part", name(each.part)}, {"text", each.text}});
    Json elsewhere = Json::array();
    for (const StudyClaim& claim : answer.elsewhere) {
      elsewhere.push_back({{"source", study_words(claim.source)},
                           {"text", claim.text},
                           {"verdict", verdict_words(claim.verdict)},
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

StudyDocument read_study(const std::filesystem::path& path) {
  const StudyFolder folder(path);
  if (!folder.manifest().exists())
    throw_error("'{}' has no study (no study.json); ridgepoint study --output {} makes one", path.string(),
                path.string());
  StudyDocument document{.folder = path.string(),
                         .configuration = folder.manifest().configuration(),
                         .parts = folder.manifest().plan().value_or(std::vector<StudyPartPlan>()),
                         .rows = folder.all_rows(),
                         .log = folder.log(),
                         .answers = {}};
  check_records(document.rows);
  document.answers = answer_questions(document.rows);
  std::erase_if(document.answers, [&](const StudyAnswer& answer) {  // of parts that the study leaves out
    return answer.missing &&
           std::ranges::find(document.parts, *answer.missing, &StudyPartPlan::part) == document.parts.end();
  });
  return document;
}

std::vector<StudyFile> study_files(const StudyDocument& document) {
  std::vector<StudyFile> files = study_pictures(document.rows);
  const std::vector<StudyFile> pictures = files;
  for (const StudyPartPlan& part : document.parts) {
    if (!document.rows.contains(part.part)) continue;
    for (StudyFile& table : study_tables(document, part, pictures)) files.push_back(std::move(table));
  }
  files.push_back({"answers.md", answers_markdown(document)});
  files.push_back({"README.md", study_readme(document, pictures)});
  files.push_back({"report.html", study_page(document, "")});
  return files;
}

std::string study_page(const StudyDocument& document, std::string_view title) {
  std::vector<ReportFile> files;
  std::size_t timelines = 0;
  for (const StudyPartPlan& part : document.parts) timelines += timelines_of(document, part).size();
  const std::size_t most_events = kMostEvents / std::max(timelines, std::size_t{1});
  for (const StudyPartPlan& part : document.parts) {
    if (document.rows.contains(part.part)) add_part(files, document, part, most_events);
  }
  return report_page(
      files, title.empty() ? fmt::format("A study of training steps on {}", device_of(document)) : std::string(title),
      answers_json(document.answers));
}

}  // namespace ridgepoint::tables
