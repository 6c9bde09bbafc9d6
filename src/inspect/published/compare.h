// Which published rows can stand beside a run, and what of them compares. The rules are the table "What compares with
// what" of data/published/README.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inspect/published/published_rows.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

enum class SameCard : std::uint8_t { yes, no, not_stated };

struct Comparable {
  const PublishedRow* row = nullptr;
  SameCard card = SameCard::not_stated;
  // "same workload, other card; batch presumed; dtype not stated": what is the same, and what the source leaves open.
  std::string label;
};

// The condition under which a row compares with anything, by its kind, table and study; empty if there is none.
std::string condition_of(const PublishedRow& row);

// The rows of training steps (bench, profile, memory and plan records) or of attention calls whose workload is that of
// the record, as far as the source states it, rows of the same card first. A row that states neither batch nor context
// is left out, and so are rows of which only ratios compare. Rows stand in the order of `rows` otherwise.
std::vector<Comparable> comparable_rows(const Record& record, std::span<const PublishedRow> rows);

}  // namespace ridgepoint
