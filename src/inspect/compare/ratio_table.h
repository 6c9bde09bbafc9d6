// A comparison of times as a page. Table and markdown: the caption has the settings that all rows share; the first
// columns have the settings that vary; then come times, ratio, verdict, memory and throughput. CSV: one column for each
// value. JSON: the same values, and both records.
#pragma once

#include <string>

#include "inspect/compare/compare_records.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

Page ratio_page(const RecordComparison& comparison, Format format);

// The row by the settings in which it differs from other rows: "compile full" or "step, dtype bf16".
std::string row_name(const RecordComparison& comparison, const ComparedRow& row);

// The ratio of a row that has one: "1.052 (1.047 to 1.058)", or "1.052" for predicted times.
std::string ratio_text(const ComparedRow& row);

}  // namespace ridgepoint::tables
