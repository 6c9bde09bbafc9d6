// The tables of `ridgepoint attention` with --pivot, --account and --oom.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "inspect/attention/account.h"
#include "inspect/attention/limit.h"
#include "ridgepoint/record/record.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

struct PivotOptions {
  std::string column;    // the setting whose values become columns: attention, dtype, d_model, ...
  std::string baseline;  // the value of that setting to which the others are compared; empty: none
};

// Throws Error (usage) if there is no such setting, or no such value among `records`, which may be of future runs.
void check(const PivotOptions& options, std::span<const Record> records);

// Table and markdown: one table for each metric. If two neighbouring rows differ in one size only, the lower cell also
// has its ratio to the upper cell. A baseline adds a table of ratios to the baseline. Files: one table with a row for
// each metric and each row of these tables.
Page pivot_page(std::span<const Record> records, const PivotOptions& options, Format format);

// Table and markdown: one table for each moment of each account. Files: one row for each tensor.
Page account_page(std::span<const AttentionAccount> accounts, Format format);

Page limit_page(std::span<const AttentionLimit> limits, std::int64_t granularity, Format format);

}  // namespace ridgepoint::tables
