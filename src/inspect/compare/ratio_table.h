// A comparison of times as a page. Table and markdown: the caption has the settings that all rows share, the first
// columns those that vary; then times, ratio, verdict, memory and throughput. CSV: one column for each value. JSON: the
// same values, and both records.
#pragma once

#include <string>

#include "inspect/compare/compare_records.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

Page ratio_page(const RecordComparison& comparison, Format format);

// What the row is, by what distinguishes it from the others: "compile full" or "step, dtype bf16".
std::string row_name(const RecordComparison& comparison, const ComparedRow& row);

// Of a row with a ratio: "1.052 (1.047 to 1.058)", or "1.052" of predicted times.
std::string ratio_text(const ComparedRow& row);

}  // namespace ridgepoint::tables
