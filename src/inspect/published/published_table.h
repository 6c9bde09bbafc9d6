// Published figures as a page: the figure, its source, its card, and the figures that it compares with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "inspect/published/compare.h"
#include "inspect/published/published_rows.h"
#include "ridgepoint/record/record.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

struct PublishedLine {
  Comparable found;             // with the condition of the row as its label where it stands beside no run
  const Record* run = nullptr;  // that it stands beside; null for none. All lines of a page have one, or none has
  std::string beside = {};      // the run, for files
};

// Only figures whose quantity is among `quantities`; all figures if these are empty. For people there is a table for
// each table of a source, with a row for each configuration and a column for each quantity, beside runs also with the
// run's own figure, its ratio to the source's, and whether they compare. Files have a row for each figure. A row that
// ran out of memory, and without `quantities` one that says no number, stands without a figure. Figures for people have
// the digits of the source, in other formats they are numbers.
Page published_page(std::span<const PublishedLine> lines, const std::vector<std::string>& quantities, Format format);

// The settings of a row: "small, batch 4, context 256, fp32"; a presumed value is in parentheses with a question mark.
// For people the name of a kernel is cut.
std::string workload_of(const PublishedRow& row, Format format);

}  // namespace ridgepoint::tables
