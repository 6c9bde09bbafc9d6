// A study as people read it: tables, pictures, answers, the page, and a README that says what is where.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "study/answer.h"
#include "study/folder.h"
#include "study/plan/plan.h"
#include "study/study_rows.h"

namespace ridgepoint::tables {

struct StudyDocument {
  std::string folder;  // as the user named it
  Json configuration;
  std::vector<StudyPartPlan> parts;
  StudyRows rows;
  std::vector<StudyLogEntry> log;
  std::vector<StudyAnswer> answers;
};

struct StudyFile {
  std::string name;  // within the folder: "tables/sizes.md"
  std::string text;
};

// Reads the folder and computes the answers. Changes nothing; an incomplete line is left out. Throws Error for a folder
// without a study, and for a damaged one.
StudyDocument read_study(const std::filesystem::path& folder);

// Every file of the study's folder beside the rows: tables, pictures, answers.md, report.html, README.md.
std::vector<StudyFile> study_files(const StudyDocument& document);

// The page alone. An empty title: the usual one.
std::string study_page(const StudyDocument& document, std::string_view title);

// The answers for a terminal, the files, and the failed command lines.
std::string study_text(const StudyDocument& document, std::size_t width);

}  // namespace ridgepoint::tables
