// The tables of ridgepoint attention beside that of its records: sequences against variants, accounts of memory,
// limits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "measure/attention/account.h"
#include "measure/attention/limit.h"
#include "ridgepoint/record.h"
#include "views/table/format.h"
#include "views/table/table.h"

namespace ridgepoint::views {

struct PivotOptions {
  std::string column;    // the heading of the setting whose values stand across: attention, dtype, d_model, ...
  std::string baseline;  // one of its values: that many times as fast, or as small, is each of the others; empty: none
};

// Throws Error (usage) where there is no such setting, or no such value of it among `records`: those of runs to come
// will do.
void check(const PivotOptions& options, std::span<const Record> records);

// For people a table for each metric, each cell followed by how many times that of the row above it is, where one
// size alone separates the two rows; with a baseline also one of how many times better. For files one table, a row
// for each metric and each row of those.
Page pivot_page(std::span<const Record> records, const PivotOptions& options, Format format);

// For people a table for each moment of each account; for files one row a tensor.
Page account_page(std::span<const AttentionAccount> accounts, Format format);

Page limit_page(std::span<const AttentionLimit> limits, std::int64_t granularity, Format format);

}  // namespace ridgepoint::views
