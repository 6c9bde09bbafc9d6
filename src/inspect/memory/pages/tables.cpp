// The tables of a page of memory.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/memory_category.h"
#include "core/text/units.h"
#include "inspect/memory/pages/parts.h"
#include "record/columns.h"
#include "record/record_table.h"

namespace ridgepoint::tables {
namespace {

Cell bytes(std::uint64_t number) { return format_bytes(number); }
Cell percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? Cell() : Cell(100 * static_cast<double>(part) / static_cast<double>(whole));
}

constexpr std::size_t kLeastLibrary = 24;  // characters of the line of a library

std::string name_of(const MemoryGroup& group) { return group.module.empty() ? "-" : group.module; }

std::string plural(const std::string& category) {
  constexpr auto kPlurals =
      enum_names<MemoryCategory>("parameters", "gradients", "activations (saved for backward)", "optimizer state",
                                 "temporaries", "workspace", "data and constants");
  const std::optional<MemoryCategory> known = kMemoryCategoryNames.find(category);
  if (known) return std::string(kPlurals[*known]);
  std::string words = category;
  std::ranges::replace(words, '_', ' ');
  return words;
}

// Ours in their order, then those that only a file has.
std::vector<std::string> categories_of(const std::vector<PhasePeak>& peaks) {
  std::vector<std::string> names(kMemoryCategoryNames.all().begin(), kMemoryCategoryNames.all().end());
  for (const PhasePeak& peak : peaks) {
    for (const MemoryShare& share : peak.contents.categories) {
      if (std::ranges::find(names, share.name) == names.end()) names.push_back(share.name);
    }
  }
  return names;
}

// All occurrences of one name.
struct PhaseSum {
  const MemoryPhase* first = nullptr;
  const MemoryPhase* last = nullptr;
  std::int64_t times = 0;
  std::uint64_t peak_bytes = 0;
  double total_us = 0;
};

}  // namespace

Table level_table(const MemoryReport& report, bool is_run) {
  Table table;
  table.columns = {left("when"), right("allocated")};
  if (!is_run) table.columns.push_back(right("active"));
  table.columns.push_back(right("requested"));
  table.columns.push_back(right("reserved"));
  if (is_run) table.columns.push_back(right("reserved, free"));
  const auto add = [&](std::string when, const MemoryLevels& levels) {
    Cells cells = {std::move(when), bytes(levels.allocated_bytes)};
    if (!is_run) cells.push_back(bytes(levels.active_bytes));
    cells.push_back(bytes(levels.requested_bytes));
    cells.push_back(bytes(levels.reserved_bytes));
    if (is_run) cells.push_back(bytes(levels.reserved_bytes - levels.allocated_bytes));
    table.add(std::move(cells));
  };
  if (!is_run) add("at the start", report.start);
  if (report.before_backward) add("before backward", report.before_backward->levels);
  if (!is_run) add("peak of each", report.peak);
  const std::string phase = report.peak_phase().empty() ? std::string() : fmt::format(", in {}", report.peak_phase());
  add((is_run ? "at the peak" : "at the peak of allocated") + phase, report.contents.levels);
  add(is_run ? "after the last iteration" : "at the end", report.end);
  return table;
}

Table rank_table(std::span<const MemoryRun> runs) {
  std::vector<Record> records;
  for (const MemoryRun& run : runs) {
    if (!run.ranks.empty()) records.push_back(run.run);
  }
  const std::vector<const Setting*> settings = varying_settings(records);
  Table table;
  for (const Setting* setting : settings) table.columns.push_back(setting_column(*setting));
  table.columns.insert(table.columns.end(), {right("rank"), right("initialised"), right("before optimizer"),
                                             right("after optimizer"), right("peak"), right("peak reserved", 1)});
  const bool has_host = std::ranges::any_of(
      runs, [](const MemoryRun& run) { return !run.ranks.empty() && run.ranks.front().host_bytes; });
  if (has_host) table.columns.push_back(right("host", 1));
  table.key_columns = settings.size() + 1;
  const auto optional = [](const std::optional<std::size_t>& size) { return size ? bytes(*size) : Cell(); };
  for (const MemoryRun& run : runs) {
    for (const RankMemory& rank : run.ranks) {
      Cells cells;
      for (const Setting* setting : settings) cells.emplace_back(setting->cell(run.run));
      cells.insert(cells.end(),
                   {count_cell(rank.rank), bytes(rank.initialised_bytes), optional(rank.before_optimizer_bytes),
                    optional(rank.after_optimizer_bytes), bytes(rank.peak_bytes), bytes(rank.peak_reserved_bytes)});
      if (has_host) cells.push_back(optional(rank.host_bytes));
      table.add(std::move(cells));
    }
  }
  return table;
}

Table phase_peak_table(const std::vector<PhasePeak>& peaks) {
  Table table;
  table.columns = {left("at the peak of")};
  for (const PhasePeak& peak : peaks) table.columns.push_back(right(peak.phase));
  const auto add = [&](std::string row, auto bytes_at) {
    Cells cells = {std::move(row)};
    bool has_bytes = false;
    for (const PhasePeak& peak : peaks) {
      const std::uint64_t found = bytes_at(peak.contents);
      has_bytes = has_bytes || found > 0;
      cells.push_back(found > 0 ? bytes(found) : Cell());
    }
    if (has_bytes) table.add(std::move(cells));
  };
  for (const std::string& category : categories_of(peaks))
    add(plural(category), [&](const MemoryContents& contents) { return contents.bytes_of(category); });
  add("allocated", [](const MemoryContents& contents) { return contents.levels.allocated_bytes; });
  add("of it rounding, unsplit blocks", [](const MemoryContents& contents) { return contents.rounding_bytes(); });
  add("reserved, but free (fragmentation)", [](const MemoryContents& contents) { return contents.unused_bytes(); });
  return table;
}

Table category_table(const MemoryContents& contents) {
  Table table;
  table.columns = {left("category"), right("bytes"), {"share", "%", "{:.1f}"}, right("blocks")};
  for (const MemoryShare& share : contents.categories) {
    table.add({share.name, bytes(share.bytes), percent(share.bytes, contents.levels.allocated_bytes),
               count_cell(share.blocks)});
  }
  return table;
}

// With what it gives where the blocks are larger: the allocator rounds, and leaves some remainders unsplit.
std::string formula_of(const MemoryGroup& group) {
  const std::string block = format_bytes(group.block_bytes());
  const std::string requested = format_bytes((group.bytes - group.rounding_bytes) / group.blocks);
  return group.formula.empty() || block == requested ? group.formula : group.formula + " = " + requested;
}

Table group_table(const MemoryContents& contents, std::optional<std::string_view> only, std::size_t top) {
  const bool has_formulas =
      std::ranges::any_of(contents.groups, [](const MemoryGroup& group) { return !group.formula.empty(); });
  Table table;
  table.columns = {right("bytes"), {"share", "%", "{:.1f}"}, right("blocks"), right("each")};
  if (has_formulas) table.columns.push_back(left("formula", 2));
  if (!only) table.columns.push_back(left("category", 1));
  table.columns.push_back(left("op"));
  table.columns.push_back(left("module"));
  table.key_columns = table.columns.size();
  const std::uint64_t whole = only ? contents.bytes_of(*only) : contents.levels.allocated_bytes;
  std::size_t shown = 0;
  std::uint64_t rest_bytes = 0, rest_blocks = 0;
  for (const MemoryGroup& group : contents.groups) {
    if (only && group.category != *only) continue;
    if (shown == top) {
      rest_bytes += group.bytes;
      rest_blocks += group.blocks;
      continue;
    }
    ++shown;
    Cells cells = {bytes(group.bytes), percent(group.bytes, whole), count_cell(group.blocks),
                   bytes(group.block_bytes())};
    if (has_formulas) cells.push_back(text_cell(formula_of(group)));
    if (!only) cells.emplace_back(group.category);
    cells.emplace_back(group.op);
    cells.emplace_back(name_of(group));
    table.add(std::move(cells));
  }
  if (rest_blocks > 0)
    table.add({bytes(rest_bytes), percent(rest_bytes, whole), count_cell(rest_blocks)}, "others; --top 0 shows all");
  return table;
}

Table origin_table(const MemoryContents& contents, std::size_t top) {
  const std::uint64_t whole_bytes = contents.levels.allocated_bytes;
  Table table;
  table.columns = {right("bytes"), {"share", "%", "{:.1f}"}, right("blocks"), left("frame"), left("in the library")};
  table.key_columns = 4;
  table.least_last_columns = kLeastLibrary;
  const std::size_t shown = std::min(contents.origins.size(), top);
  for (std::size_t i = 0; i < shown; ++i) {
    const MemoryShare& share = contents.origins[i];
    table.add({bytes(share.bytes), percent(share.bytes, whole_bytes), count_cell(share.blocks), share.name,
               text_cell(share.library)});
  }
  if (shown == contents.origins.size()) return table;
  std::uint64_t rest = 0, blocks = 0;
  for (std::size_t i = shown; i < contents.origins.size(); ++i) {
    rest += contents.origins[i].bytes;
    blocks += contents.origins[i].blocks;
  }
  table.add({bytes(rest), percent(rest, whole_bytes), count_cell(blocks),
             fmt::format("({} others)", contents.origins.size() - shown), Cell()});
  return table;
}

Table request_table(const std::vector<MemoryRequest>& requests, std::size_t top) {
  Table table;
  table.columns = {right("each"),    left("formula"), right("times"),     right("at the peak"), left("category", 2),
                   left("phase", 1), left("op"),      left("made at", 3), left("module")};
  table.key_columns = table.columns.size();
  for (std::size_t i = 0; i < std::min(top, requests.size()); ++i) {
    const MemoryGroup& group = requests[i].group;
    table.add({bytes(group.block_bytes()), text_cell(formula_of(group)), count_cell(group.blocks),
               count_cell(requests[i].held), group.category, group.phase, group.op, text_cell(group.source),
               name_of(group)});
  }
  return table;
}

Table annotation_table(const MemoryReport& report) {
  std::vector<PhaseSum> sums;  // in the order of their first occurrence
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (const MemoryPhase& phase : report.phases) {
    const auto [found, is_new] = numbers.try_emplace(phase.name, sums.size());
    if (is_new) sums.push_back({&phase, nullptr, 0, 0, 0});
    PhaseSum& sum = sums[found->second];
    sum.last = &phase;
    ++sum.times;
    sum.peak_bytes = std::max(sum.peak_bytes, phase.peak_bytes);
    sum.total_us += static_cast<double>(phase.end.time_us - phase.begin.time_us);
  }
  Table table;
  table.columns = {left("phase"),         right("times"),      right("mean ms", 1),  right("peak"),
                   right("first: begin"), right("first: end"), right("last: begin"), right("last: end")};
  for (const PhaseSum& sum : sums) {
    const std::string indent(2 * std::min<std::size_t>(sum.first->depth, 8), ' ');
    table.add({indent + sum.first->name, sum.times,
               report.has_times ? Cell(format_ms(sum.total_us / 1e3 / static_cast<double>(sum.times))) : Cell(),
               bytes(sum.peak_bytes), bytes(sum.first->begin_bytes), bytes(sum.first->end_bytes),
               bytes(sum.last->begin_bytes), bytes(sum.last->end_bytes)});
  }
  table.remark = "Bytes are allocated bytes.";
  return table;
}

Table leak_table(const MemoryLeaks& leaks, std::size_t top) {
  Table table;
  table.columns = {right("bytes"), right("blocks"), right("of size"), left("frame"), left("in the library")};
  table.key_columns = 4;
  table.least_last_columns = kLeastLibrary;
  const std::size_t shown = std::min(leaks.groups.size(), top);
  for (std::size_t i = 0; i < shown; ++i) {
    const MemoryLeak& leak = leaks.groups[i];
    table.add(
        {bytes(leak.bytes), count_cell(leak.blocks), bytes(leak.block_bytes), leak.origin, text_cell(leak.library)});
  }
  if (shown < leaks.groups.size()) table.note = fmt::format("{} more groups.", leaks.groups.size() - shown);
  return table;
}

}  // namespace ridgepoint::tables
