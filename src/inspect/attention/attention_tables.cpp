#include "inspect/attention/attention_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/text/units.h"
#include "record/columns.h"
#include "record/record_table.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

const std::array<Column, 11> kProblemColumns = {
    Column{"attention", "attention"}, Column{"dtype", "dtype"},      Column{"compile", "compile"},
    Column{"causal", "causal"},       Column{"window", "window"},    Column{"soft_cap", "soft cap"},
    Column{"batch", "batch"},         Column{"heads", "heads"},      Column{"kv_heads", "kv_heads"},
    Column{"d_model", "d_model"},     Column{"sequence", "sequence"}};

Cells problem_cells(const AttentionProblem& problem, const Record& run) {
  return {std::string(name(problem.variant)),
          std::string(name(problem.precision)),
          std::string(name(run.compile)),
          std::string(problem.causal ? "true" : "false"),
          problem.window > 0 ? Cell(problem.window) : Cell(),
          problem.soft_cap > 0 ? Cell(problem.soft_cap) : Cell(),
          problem.batch,
          problem.heads,
          problem.key_heads(),
          problem.d_model,
          problem.queries};
}

std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string difference_text(const AccountLine& line) {
  std::string text;
  if (line.rounding_bytes > 0) text = fmt::format("{} rounding to 512", line.rounding_bytes);
  if (line.unsplit_bytes > 0) {
    text += fmt::format("{}{} unsplit remainder", text.empty() ? "" : ", ", line.unsplit_bytes);
  }
  return text.empty() ? "none" : text;
}

Cells account_cells(const AccountLine& line) {
  return {line.component,       text_cell(line.shape), text_cell(line.formula),
          line.predicted_bytes, line.measured_bytes,   difference_text(line)};
}

// The request that fails has no block.
Cells refused_cells(const AccountLine& line, Cell difference) {
  return {line.component, text_cell(line.shape), text_cell(line.formula), line.predicted_bytes, Cell(), difference};
}

// The values of the symbols in shapes and formulas.
std::string sizes_of(const AttentionProblem& p) {
  std::string text = fmt::format("B {}, H {}, S {}, D {}", p.batch, p.heads, p.queries, p.head_size());
  if (p.keys != p.queries) text += fmt::format(", K {}", p.keys);
  if (p.key_heads() != p.heads) text += fmt::format(", N {}, G {}", p.key_heads(), p.heads / p.key_heads());
  return text;
}

Table account_for_people(const AttentionAccount& account, const AccountMoment& moment) {
  Table table;
  table.caption = fmt::format("Allocated bytes ({}): {}\n{}", moment.name, sizes_of(account.problem),
                              records_caption(std::span(&account.run, 1)));
  table.columns = {{"component", "component"},
                   {"shape", "shape", "{}", Align::by_content, 1},
                   {"formula", "bytes by formula"},
                   {"predicted_bytes", "predicted"},
                   {"measured_bytes", account.run.device.kind == "null" ? "by the allocator" : "measured"},
                   {"difference", "difference"}};
  std::int64_t predicted = 0, rounding = 0, unsplit = 0;
  for (const AccountLine& line : moment.lines) {
    table.add(account_cells(line));
    predicted += line.predicted_bytes;
    rounding += line.rounding_bytes;
    unsplit += line.unsplit_bytes;
  }
  AccountLine total{"total", "", "", predicted, moment.allocated_bytes, rounding, unsplit};
  table.add(account_cells(total));
  if (moment.refused) table.add(refused_cells(*moment.refused, "does not fit"));
  table.note =
      fmt::format("{} allocated; {} reserved, {} of it free for reuse", bytes_text(moment.allocated_bytes),
                  bytes_text(moment.reserved_bytes), bytes_text(moment.reserved_bytes - moment.allocated_bytes));
  if (account.run.attention_fallback) {
    table.note += fmt::format("; no kernel for this shape, so it ran as {}", name(*account.run.attention_fallback));
  }
  return table;
}

Table failure_of(const AttentionAccount& account) {
  Table table;
  table.caption = fmt::format("{}\n{}", sizes_of(account.problem), records_caption(std::span(&account.run, 1)));
  table.columns = {{"status", "status"}, {"message", "message"}};
  table.add({std::string(name(account.run.status)), account.run.error.message});
  return table;
}

Page accounts_for_people(std::span<const AttentionAccount> accounts) {
  Page page;
  for (const AttentionAccount& account : accounts) {
    for (const AccountMoment& moment : account.moments) page.tables.push_back(account_for_people(account, moment));
    if (account.run.status != RunStatus::ok) page.tables.push_back(failure_of(account));
  }
  return page;
}

Table accounts_for_files(std::span<const AttentionAccount> accounts) {
  Table table;
  table.columns.assign(kProblemColumns.begin(), kProblemColumns.end());
  append_columns(table, std::array{"keys", "device", "memory_limit_bytes", "status", "message", "moment", "component",
                                   "shape", "formula", "predicted_bytes", "measured_bytes", "rounding_bytes",
                                   "unsplit_bytes", "allocated_bytes", "reserved_bytes"});
  for (const AttentionAccount& account : accounts) {
    Cells begin = problem_cells(account.problem, account.run);
    begin.insert(begin.end(),
                 {account.problem.keys, account.run.device.kind, optional_cell(account.run.device.memory_limit_bytes),
                  std::string(name(account.run.status)), account.run.error.message});
    for (const AccountMoment& moment : account.moments) {
      for (const AccountLine& line : moment.lines) {
        Cells row = begin;
        row.insert(row.end(),
                   {moment.name, line.component, line.shape, line.formula, line.predicted_bytes, line.measured_bytes,
                    line.rounding_bytes, line.unsplit_bytes, moment.allocated_bytes, moment.reserved_bytes});
        table.add(std::move(row));
      }
      if (!moment.refused) continue;
      Cells row = begin;
      row.emplace_back(moment.name);
      std::ranges::move(refused_cells(*moment.refused, Cell()), std::back_inserter(row));
      row.insert(row.end(), {Cell(), moment.allocated_bytes, moment.reserved_bytes});
      table.add(std::move(row));
    }
    if (account.moments.empty()) {
      begin.resize(table.columns.size());
      table.add(std::move(begin));
    }
  }
  return table;
}

// Why the limit was not confirmed, or why no limit was found.
std::string remark_of(const AttentionLimit& limit) {
  if (limit.run.status != RunStatus::ok) return limit.run.error.message;
  std::string text = limit.remark;
  if (limit.run.attention_fallback) {
    text += fmt::format("{}ran as {}", text.empty() ? "" : "; ", name(*limit.run.attention_fallback));
  }
  return text;
}

Cells limit_cells(const AttentionLimit& limit, std::int64_t granularity, bool for_people) {
  Cells cells = problem_cells(limit.problem, limit.run);
  cells.pop_back();
  const bool found = limit.run.status == RunStatus::ok;
  const auto bytes = [&](std::int64_t count) {
    if (!found) return Cell();
    return for_people ? Cell(bytes_text(count)) : Cell(count);
  };
  // Table and markdown print the missing bytes of the segment, which may be too few to see in rounded sizes.
  const std::int64_t free_bytes =
      for_people ? std::max<std::int64_t>(limit.segment_bytes - limit.free_bytes, 0) : limit.free_bytes;
  cells.insert(cells.end(),
               {limit.run.device.kind, bytes(limit.memory_bytes), found ? Cell(limit.problem.queries) : Cell(),
                bytes(limit.peak_allocated_bytes), bytes(limit.peak_reserved_bytes),
                found ? Cell(limit.problem.queries + granularity) : Cell(), bytes(limit.requested_bytes),
                bytes(limit.segment_bytes), bytes(free_bytes),
                std::string(found ? name(limit.confirmation) : name(limit.run.status)), text_cell(remark_of(limit))});
  return cells;
}

void leave_out(Table& table, std::size_t column) {
  table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(column));
  for (Row& row : table.rows) row.cells.erase(row.cells.begin() + static_cast<std::ptrdiff_t>(column));
}

constexpr std::size_t kLimitSettings =
    kProblemColumns.size() + 1;  // without the sequence, with the device and its memory

// Removes settings that are the same in all rows, because the caption has them, and an empty column of remarks.
void remove_constant_columns(Table& table) {
  const auto all_are = [&](std::size_t column, const Cell& cell) {
    return std::ranges::all_of(table.rows, [&](const Row& row) { return row.cells[column] == cell; });
  };
  if (all_are(table.columns.size() - 1, Cell())) leave_out(table, table.columns.size() - 1);
  for (std::size_t i = kLimitSettings; i-- > 1;) {
    if (all_are(i, Cell(table.rows.front().cells[i]))) leave_out(table, i);
  }
}

}  // namespace

Page account_page(std::span<const AttentionAccount> accounts, Format format) {
  return is_for_people(format) ? accounts_for_people(accounts) : Page{.tables = {accounts_for_files(accounts)}};
}

Page limit_page(std::span<const AttentionLimit> limits, std::int64_t granularity, Format format) {
  Table table;
  const bool for_people = is_for_people(format);
  table.columns.assign(kProblemColumns.begin(), kProblemColumns.end());
  table.columns.back() = {"device", "device"};
  table.columns.insert(table.columns.end(), {{"memory_bytes", "memory", "{}", Align::right},
                                             {"longest_sequence", "longest"},
                                             {"peak_allocated_bytes", "peak", "{}", Align::right},
                                             {"peak_reserved_bytes", "reserved", "{}", Align::right, 2},
                                             {"next_sequence", "next"},
                                             {"requested_bytes", "failing request", "{}", Align::right, 1},
                                             {"segment_bytes", "its segment", "{}", Align::right, 1},
                                             {"free_bytes", "missing", "{}", Align::right, 1},
                                             {"confirmed", "confirmed"},
                                             {"remark", "remark"}});
  std::vector<Record> runs;
  for (const AttentionLimit& limit : limits) {
    table.add(limit_cells(limit, granularity, for_people));
    runs.push_back(limit.run);
    runs.back().context = 0;  // a result here, not a setting
    runs.back().attention_call->keys.reset();
  }
  if (!for_people || limits.empty()) return {.tables = {table}};
  remove_constant_columns(table);
  const std::int64_t memory_bytes = limits.front().memory_bytes;
  const bool is_one_size = memory_bytes > 0 && std::ranges::all_of(limits, [&](const AttentionLimit& limit) {
                             return limit.memory_bytes == memory_bytes;
                           });
  table.caption = fmt::format("The longest sequence of which forward and backward fit{}\n{}",
                              is_one_size ? " into " + bytes_text(memory_bytes) : "", records_caption(runs));
  return {.tables = {table}};
}

}  // namespace ridgepoint::tables
