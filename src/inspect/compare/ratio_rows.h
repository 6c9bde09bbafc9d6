// A comparison of times for CSV and JSON: every value of a row under its name, with all digits.
#pragma once

#include <string>
#include <vector>

#include "inspect/compare/compare_records.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

// For CSV: the settings by their names in a record, then the values.
Table ratio_rows(const RecordComparison& comparison);

// One JSON object a row: the values, and the whole of `record` and `baseline`.
std::vector<std::string> ratio_documents(const RecordComparison& comparison);

}  // namespace ridgepoint::views
