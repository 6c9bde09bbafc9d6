// The pieces of a study's files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/record.h"
#include "study/answer.h"
#include "study/pages/study_files.h"
#include "study/plan/plan.h"
#include "tables/table/format.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

// "ridgepoint bench --model small": a command line as a user types it in the folder that holds the study's folder.
std::string command_text(const StudyCommand& command, const std::string& folder);

// Rows that are no records as they are shown: without nesting, those that belong together in one table.
struct StudyRowGroup {
  std::string caption;  // empty: the part's title says it
  std::vector<Json> rows;
};
// The devices and why others cannot run; an account by its moments; otherwise the rows of each command line.
std::vector<StudyRowGroup> shown_rows(const StudyDocument& document, const StudyPartPlan& part);

// Whether the rows are records, which all have the same fields.
bool has_records(const std::vector<Json>& rows);
std::vector<Record> records_of(const std::vector<Json>& rows);

// The names of the pictures of a part: among `pictures`, and those that its command lines wrote into the folder.
std::vector<std::string> pictures_of(const StudyDocument& document, StudyPart part,
                                     const std::vector<StudyFile>& pictures);

// The tables of a part that has rows: in Markdown with its title, command lines and pictures, and in CSV.
std::vector<StudyFile> study_tables(const StudyDocument& document, const StudyPartPlan& part,
                                    const std::vector<StudyFile>& pictures);
// What the records of `profile` and of one run of `memory` have beside the fields of records.
std::vector<Table> profile_tables(const std::vector<Json>& rows);
std::vector<Table> memory_tables(const std::vector<Json>& rows);

// The pictures of the rows; a picture without enough points is left out.
std::vector<StudyFile> study_pictures(const StudyRows& rows);

// The command lines that failed, each with its exit code and problem.
std::vector<std::string> failures_of(const StudyDocument& document);
std::string_view verdict_words(StudyClaim::Verdict verdict);
// The processor or GPU of the records; the name for --device where there is no record.
std::string device_of(const StudyDocument& document);
std::string answers_markdown(const StudyDocument& document);
std::string study_readme(const StudyDocument& document, const std::vector<StudyFile>& pictures);

}  // namespace ridgepoint::views
