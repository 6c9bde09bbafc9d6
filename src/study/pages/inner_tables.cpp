// What records of `profile` and `memory` say beside the fields that every record has.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/units.h"
#include "study/pages/json_table.h"
#include "study/pages/parts.h"

namespace ridgepoint::views {
namespace {

using Kind = JsonKind;

const std::vector<JsonColumn> kWork = {{"calls", "calls", Kind::number},
                                       {"time_ms", "ms", Kind::ms},
                                       {"share_of_kernel_time", "time", Kind::share},
                                       {"flops", "flop", Kind::count},
                                       {"share_of_flops", "of flop", Kind::share}};
constexpr std::size_t kMostRows = 15;

std::vector<JsonColumn> with_work(std::vector<JsonColumn> columns) {
  columns.insert(columns.end(), kWork.begin(), kWork.end());
  return columns;
}

// The largest come first in records.
JsonRows first_of(JsonRows rows) {
  rows.resize(std::min(rows.size(), kMostRows));
  return rows;
}

std::string captioned(const Json& row, std::string_view what) {
  return fmt::format("{}, {}: {}", text_at(row, "mode"), text_at(row, "dtype"), what);
}

// One record of `profile`.
void add_profile(std::vector<Table>& tables, const Json& row) {
  const auto add = [&](std::string_view what, const char* path, const std::vector<JsonColumn>& columns) {
    const JsonRows rows = pointers(member(row, path));
    if (!rows.empty()) tables.push_back(json_table(captioned(row, what), first_of(rows), columns, Format::markdown));
  };
  add("kernels", "profile.kernels", with_work({{"name", "kernel"}}));
  add("phases and classes", "profile.classes", with_work({{"phase", "phase"}, {"class", "class"}}));
  add("inside attention", "profile.attention", with_work({{"phase", "phase"}, {"part", "range"}}));
  add("idle time", "profile.idle",
      {{"cause", "cause"},
       {"time_ms", "ms", Kind::ms},
       {"share_of_wall_time", "of wall time", Kind::share},
       {"gaps", "gaps", Kind::number},
       {"longest_us", "longest us", Kind::us}});
  add("time above the floor", "profile.recoverable",
      {{"phase", "phase"},
       {"what", "what"},
       {"kernel", "kernel"},
       {"time_ms", "ms", Kind::ms},
       {"floor_ms", "floor ms", Kind::ms},
       {"share_of_ceiling", "of ceiling", Kind::share},
       {"bound_by", "bound by"},
       {"recoverable_ms", "recoverable ms", Kind::ms}});
}

std::string sawtooth_of(const Json& row) {
  const Json& sawtooth = member(row, "memory.sawtooth");
  if (!sawtooth.is_object()) return "";
  std::string verdict = text_at(sawtooth, "verdict");
  std::ranges::replace(verdict, '_', ' ');
  return fmt::format("Memory rises by {} in {} ms and falls in {} ms, {} times: {}.",
                     format_byte_count(number_at(sawtooth, "height_bytes")), format_ms(number_at(sawtooth, "rise_ms")),
                     format_ms(number_at(sawtooth, "fall_ms")), member(sawtooth, "cycles").dump(), verdict);
}

}  // namespace

std::vector<Table> profile_tables(const std::vector<Json>& rows) {
  std::vector<Table> tables;
  for (const Json& row : rows) {
    const std::size_t first = tables.size();
    add_profile(tables, row);
    std::vector<std::string> verdict;
    for (const Json& sentence : member(row, "profile.verdict")) {
      if (sentence.is_string()) verdict.push_back(sentence.get<std::string>());
    }
    if (first < tables.size()) tables[first].note = fmt::format("{}", fmt::join(verdict, " "));
  }
  return tables;
}

std::vector<Table> memory_tables(const std::vector<Json>& rows) {
  std::vector<Table> tables;
  for (const Json& row : rows) {
    std::vector<JsonColumn> columns = {{"name", "phase"}, {"allocated_bytes", "allocated", Kind::bytes}};
    for (const char* category :
         {"parameter", "optimizer_state", "data", "gradient", "activation", "temporary", "workspace"}) {
      std::string heading = category;
      std::ranges::replace(heading, '_', ' ');
      columns.push_back({fmt::format("by_category.{}", category), heading, Kind::bytes});
    }
    const JsonRows phases = pointers(member(row, "memory.phases"));
    if (!phases.empty()) {
      tables.push_back(json_table(captioned(row, "the peak of each phase"), phases, columns, Format::markdown));
      tables.back().note = sawtooth_of(row);
    }
    const JsonRows largest = pointers(member(row, "memory.largest_allocations"));
    if (largest.empty()) continue;
    tables.push_back(json_table(captioned(row, "largest allocations of an iteration"), first_of(largest),
                                {{"module", "module"},
                                 {"op", "op"},
                                 {"category", "category"},
                                 {"phase", "phase"},
                                 {"block_bytes", "each", Kind::bytes},
                                 {"formula", "formula"},
                                 {"blocks", "times", Kind::number},
                                 {"at_peak", "at the peak", Kind::number},
                                 {"source", "made at"}},
                                Format::markdown));
  }
  return tables;
}

}  // namespace ridgepoint::views
