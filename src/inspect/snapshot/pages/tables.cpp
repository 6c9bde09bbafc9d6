// The tables of a snapshot's page.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/text/units.h"
#include "inspect/snapshot/pages/parts.h"

namespace ridgepoint::views {
namespace {

Cell bytes(std::uint64_t number) { return format_bytes(number); }
Cell count(std::uint64_t number) { return static_cast<std::int64_t>(number); }
Cell percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return {};
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

Cells level_cells(std::string when, const MemoryLevels& levels) {
  return {std::move(when), bytes(levels.allocated_bytes), bytes(levels.active_bytes), bytes(levels.reserved_bytes)};
}

// All occurrences of one name.
struct PhaseSum {
  const SnapshotPhase* first = nullptr;
  const SnapshotPhase* last = nullptr;
  std::int64_t times = 0;
  std::uint64_t peak_bytes = 0;
  double total_us = 0;
};

}  // namespace

Table level_table(const SnapshotReport& report) {
  Table table;
  table.columns = {left("when"), right("allocated"), right("active"), right("reserved")};
  table.add(level_cells("at the start", report.start));
  table.add(level_cells("peak of each", report.peak));
  table.add(level_cells("at the peak of allocated", report.at_peak));
  table.add(level_cells("at the end", report.end));
  return table;
}

Table category_table(const MemoryContents& contents, std::uint64_t whole_bytes) {
  Table table;
  table.columns = {left("category"), right("bytes"), {"share", "%", "{:.1f}"}, right("blocks")};
  for (const MemoryShare& share : contents.categories) {
    table.add({share.name, bytes(share.bytes), percent(share.bytes, whole_bytes), count(share.blocks)});
  }
  return table;
}

Table origin_table(const MemoryContents& contents, std::uint64_t whole_bytes, std::size_t top) {
  Table table;
  table.columns = {right("bytes"), {"share", "%", "{:.1f}"}, right("blocks"), left("frame"), left("called from", 1)};
  table.key_columns = 4;
  const std::size_t shown = std::min(contents.origins.size(), top);
  for (std::size_t i = 0; i < shown; ++i) {
    const MemoryShare& share = contents.origins[i];
    table.add({bytes(share.bytes), percent(share.bytes, whole_bytes), count(share.blocks), share.name,
               text_cell(share.caller)});
  }
  if (shown == contents.origins.size()) return table;
  std::uint64_t rest = 0, blocks = 0;
  for (std::size_t i = shown; i < contents.origins.size(); ++i) {
    rest += contents.origins[i].bytes;
    blocks += contents.origins[i].blocks;
  }
  table.add({bytes(rest), percent(rest, whole_bytes), count(blocks),
             fmt::format("({} others)", contents.origins.size() - shown), Cell()});
  return table;
}

Table phase_table(const SnapshotReport& report) {
  std::vector<PhaseSum> sums;  // in the order of their first occurrence
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (const SnapshotPhase& phase : report.phases) {
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
    table.add({indent + sum.first->name, sum.times, format_ms(sum.total_us / 1e3 / static_cast<double>(sum.times)),
               bytes(sum.peak_bytes), bytes(sum.first->begin_bytes), bytes(sum.first->end_bytes),
               bytes(sum.last->begin_bytes), bytes(sum.last->end_bytes)});
  }
  table.remark = "Bytes are allocated bytes.";
  return table;
}

Table leak_table(const SnapshotLeaks& leaks, std::size_t top) {
  Table table;
  table.columns = {right("bytes"), right("blocks"), right("of size"), left("frame"), left("called from", 1)};
  table.key_columns = 4;
  const std::size_t shown = std::min(leaks.groups.size(), top);
  for (std::size_t i = 0; i < shown; ++i) {
    const SnapshotLeak& leak = leaks.groups[i];
    table.add({bytes(leak.bytes), count(leak.blocks), bytes(leak.block_bytes), leak.origin, text_cell(leak.caller)});
  }
  if (shown < leaks.groups.size()) table.note = fmt::format("{} more groups.", leaks.groups.size() - shown);
  return table;
}

}  // namespace ridgepoint::views
