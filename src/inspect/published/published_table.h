// Published figures as a page: what was measured, where it was published, on which card, and what it compares with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "inspect/published/published_rows.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

struct PublishedLine {
  const PublishedRow* row = nullptr;
  std::string label;        // what compares
  std::string beside = {};  // the run that it stands beside; empty for none
};

// A line for each figure of the rows whose quantity is among `quantities`; all figures if these are empty. A row that
// ran out of memory, and without `quantities` one that says no number, has one line without a figure. Figures for
// people have the digits of the source, in other formats they are numbers.
Page published_page(std::span<const PublishedLine> lines, const std::vector<std::string>& quantities, Format format);

// The settings of a row: "small, batch 4, context 256, fp32"; a presumed value is in parentheses with a question mark.
std::string workload_of(const PublishedRow& row);

}  // namespace ridgepoint::tables
