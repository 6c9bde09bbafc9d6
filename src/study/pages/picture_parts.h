// What the pictures of a study share: curves and captions from rows.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "study/pages/study_files.h"
#include "study/study_rows.h"
#include "tables/plot/svg_chart.h"
#include "tables/plot/svg_rows.h"

namespace ridgepoint::views {

using NameOfRow = std::function<std::string(const Json&)>;

// The rows of a part; none if it has not run.
const std::vector<Json>& rows_of(const StudyRows& rows, StudyPart part);

// The settings that all rows share: "NVIDIA H200, small, bf16, 4 x 256".
std::string shared_settings(const std::vector<Json>& rows);

// One curve for each name, in the order of the rows; rows without a name are left out. `planned` is what y was planned
// to be, for rows that ran out of memory.
std::vector<SvgSeries> curves(const std::vector<Json>& rows, const char* x, const char* y, const NameOfRow& name,
                              const char* planned = "");
// Curves for a chart, or, where all rows have one x, the same figures as rows.
void add_curves(std::vector<StudyFile>& files, std::string_view file, SvgChart chart);

// A row for each name and a mark for each series, both in the order of the rows, with the range of the samples.
SvgRows marks(const std::vector<Json>& rows, const std::string& statistics, const NameOfRow& name,
              const NameOfRow& series);

void add_picture(std::vector<StudyFile>& files, std::string_view file, std::string svg);

// The pictures of groups of parts.
void add_step_pictures(std::vector<StudyFile>& files, const StudyRows& rows);
void add_attention_pictures(std::vector<StudyFile>& files, const StudyRows& rows);
void add_other_pictures(std::vector<StudyFile>& files, const StudyRows& rows);

}  // namespace ridgepoint::views
