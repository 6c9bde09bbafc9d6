// The pieces of a study's files.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "ridgepoint/record/record.h"
#include "study/answer.h"
#include "study/pages/study_files.h"
#include "study/plan/plan.h"
#include "study/study_rows.h"
#include "tables/plot/svg_chart.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

using NameOfRow = std::function<std::string(const Json&)>;

// "ridgepoint bench --model small": a command line as a user types it in the folder that holds the study's folder.
std::string command_text(const StudyCommand& command, const std::string& folder);

// Rows of one table, without nesting, of a part whose rows are no records.
struct StudyRowGroup {
  std::string caption;  // empty: the part's title says it
  std::vector<Json> rows;
};
// The tables of a part: the devices, and why others cannot run; an account by its moments; otherwise the rows of each
// command line.
std::vector<StudyRowGroup> shown_rows(const StudyDocument& document, const StudyPartPlan& part);

// Whether the rows are records, which all have the same fields.
bool has_records(const std::vector<Json>& rows);
std::vector<Record> records_of(const std::vector<Json>& rows);

// The names of the pictures of a part: among `pictures`, and those that its command lines wrote into the folder.
std::vector<std::string> pictures_of(const StudyDocument& document, const StudyPartPlan& part,
                                     const std::vector<StudyFile>& pictures);

// The tables of a part that has rows: in Markdown with its title, command lines and pictures, and in CSV.
std::vector<StudyFile> study_tables(const StudyDocument& document, const StudyPartPlan& part,
                                    const std::vector<StudyFile>& pictures);

// The pictures of the rows; a picture without enough points is left out.
std::vector<StudyFile> study_pictures(const StudyRows& rows);

// Of the parts that several ranks run, or that are calculated for them.
void add_rank_pictures(std::vector<StudyFile>& files, const StudyRows& rows);

// The command lines that failed, each with its exit code and problem.
std::vector<std::string> failures_of(const StudyDocument& document);
std::string_view verdict_words(StudyClaim::Verdict verdict);
// The processor or GPU of the records; the name for --device where there is no record.
std::string device_of(const StudyDocument& document);
std::string answers_markdown(const StudyDocument& document);
std::string study_readme(const StudyDocument& document, const std::vector<StudyFile>& pictures);

// The rows of a part; none if it has not run.
const std::vector<Json>& rows_of(const StudyRows& rows, StudyPart part);

// The place of a name, which is added if it is new.
std::size_t place_of(std::vector<std::string>& names, const std::string& name);

// The settings that all rows share: "NVIDIA H200, small, bf16, 4 x 256".
std::string shared_settings(const std::vector<Json>& rows);

// One curve for each name, in the order of the rows; rows without a name are left out. `planned` is the planned y, for
// rows that ran out of memory.
std::vector<SvgSeries> curves(const std::vector<Json>& rows, const char* x, const char* y, const NameOfRow& name,
                              const char* planned = "");
// Curves for a chart, or, where all rows have one x, the same figures as rows.
void add_curves(std::vector<StudyFile>& files, std::string_view file, SvgChart chart);

// A row for each name and a mark for each series, both in the order of the rows, with the range of the samples.
SvgRows marks(const std::vector<Json>& rows, const std::string& statistics, const NameOfRow& name,
              const NameOfRow& series);

void add_picture(std::vector<StudyFile>& files, std::string_view file, std::string svg);

struct PublishedBeside {
  std::size_t record = 0;  // the first record that it stands beside
  std::string study;
  std::string label;  // what compares, and what the source leaves open
  bool is_out_of_memory = false;
  std::optional<double> time_ms, forward_ms, backward_ms;
  // Only where the source's unit is certain.
  std::optional<double> before_backward_bytes, peak_bytes;
};

// Each row once. Rows without warm-up and rows under a profiler are left out: their times are not those of an
// iteration.
std::vector<PublishedBeside> published_beside(std::span<const Record> records);

}  // namespace ridgepoint::tables
