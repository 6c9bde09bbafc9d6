// The finished rows of a study, as its files have them, and how they are read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "study/plan/plan.h"

namespace ridgepoint {

// Rows in the order of their file. A part that has not run has no entry; one that was stopped has its finished rows.
// Rows of bench, attention, profile and memory are records (docs/record.md). Rows of devices and precision have the
// fields that the commands of that name write.
using StudyRows = std::map<StudyPart, std::vector<Json>>;

// The member at a path with dots: "time_ms.median"; null if a level is missing. A member whose own name is the path
// comes first.
const Json& field(const Json& row, std::string_view path);
double number_at(const Json& row, std::string_view path);     // NaN if it is no number
std::string text_at(const Json& row, std::string_view path);  // empty if it is no text

// Whether nothing ran for the row: `plan` or the null device made it.
bool is_planned(const Json& row);

}  // namespace ridgepoint
