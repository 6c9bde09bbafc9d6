// The pieces of a study's files.
#pragma once

#include <string>
#include <vector>

#include "measure/study/answer.h"
#include "measure/study/plan.h"
#include "views/study/study_files.h"
#include "views/table/format.h"
#include "views/table/table.h"

namespace ridgepoint::views {

// "ridgepoint bench --model small": a command line as a user types it in the folder that holds the study's folder.
std::string command_text(const StudyCommand& command, const std::string& folder);

// The rows of a part as a table: the settings that differ, then the measurements that the rows have. `rows` are not
// empty.
Table study_table(StudyPart part, const std::vector<Json>& rows, Format format);
// Rows that are no records, with a cell for each member: nested members become members of their own.
std::vector<Json> flat_rows(StudyPart part, const std::vector<Json>& rows);

// The pictures of the rows; a picture without enough points is left out.
std::vector<StudyFile> study_pictures(const StudyRows& rows);

std::string answers_markdown(const StudyDocument& document);
std::string answers_text(const StudyDocument& document, std::size_t width);
std::string study_readme(const StudyDocument& document, const std::vector<StudyFile>& files);
std::string study_page(const StudyDocument& document);

}  // namespace ridgepoint::views
