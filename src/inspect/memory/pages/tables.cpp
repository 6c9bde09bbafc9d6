// The tables of a page of a run's memory.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text/units.h"
#include "inspect/memory/pages/parts.h"
#include "record/columns.h"

namespace ridgepoint::views {
namespace {

Cell bytes(std::size_t number) { return format_bytes(number); }
Cell count(std::size_t number) { return static_cast<std::int64_t>(number); }
Cell percent(std::size_t part, std::size_t whole) {
  return whole == 0 ? Cell() : Cell(100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string name_of(const MemoryGroup& group) { return group.module.empty() ? "-" : group.module; }

std::string plural(MemoryCategory category) {
  constexpr auto kPlurals =
      enum_names<MemoryCategory>("parameters", "gradients", "activations (saved for backward)", "optimizer state",
                                 "temporaries", "workspace", "data and constants");
  return std::string(kPlurals[category]);
}

}  // namespace

Table level_table(const MemoryRun& run) {
  const HeldMemory& peak = run.peaks.phases[run.peaks.highest].contents;
  Table table;
  table.columns = {left("when"), right("allocated"), right("requested"), right("reserved"), right("reserved, free")};
  const auto add = [&](std::string when, const MemoryLevel& level) {
    table.add({std::move(when), bytes(level.allocated_bytes), bytes(level.requested_bytes), bytes(level.reserved_bytes),
               bytes(level.reserved_bytes - level.allocated_bytes)});
  };
  if (run.peaks.before_backward) add("before backward", run.peaks.before_backward->level);
  add(fmt::format("at the peak, in {}", name(run.peaks.phases[run.peaks.highest].phase)), peak.level);
  MemoryLevel end;
  for (const MemoryEvent& event : run.history.events) end.apply(event);
  add("after the last iteration", end);
  return table;
}

Table rank_table(std::span<const MemoryRun> runs) {
  Table table;
  table.columns = {left("sharded"),          right("rank"), right("initialised"),     right("before optimizer"),
                   right("after optimizer"), right("peak"), right("peak reserved", 1)};
  table.key_columns = 2;
  const auto optional = [](const std::optional<std::size_t>& size) { return size ? bytes(*size) : Cell(); };
  for (const MemoryRun& run : runs) {
    for (const RankMemory& rank : run.ranks) {
      table.add({run.run.training_step->parallel.shard.value_or("none"), count(rank.rank),
                 bytes(rank.initialised_bytes), optional(rank.before_optimizer_bytes),
                 optional(rank.after_optimizer_bytes), bytes(rank.peak_bytes), bytes(rank.peak_reserved_bytes)});
    }
  }
  return table;
}

Table phase_table(const MemoryPeaks& peaks) {
  Table table;
  table.columns = {left("at the peak of")};
  for (const PhaseContents& peak : peaks.phases) table.columns.push_back(right(std::string(name(peak.phase))));
  const auto add = [&](std::string row, auto bytes_at) {
    Cells cells = {std::move(row)};
    bool has_bytes = false;
    for (const PhaseContents& peak : peaks.phases) {
      const std::size_t found = bytes_at(peak.contents);
      has_bytes = has_bytes || found > 0;
      cells.push_back(found > 0 ? bytes(found) : Cell());
    }
    if (has_bytes) table.add(std::move(cells));
  };
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    add(plural(static_cast<MemoryCategory>(i)), [&](const HeldMemory& held) { return held.level.by_category[i]; });
  }
  add("allocated", [](const HeldMemory& held) { return held.level.allocated_bytes; });
  add("of it rounding, unsplit blocks", [](const HeldMemory& held) { return held.rounding_bytes(); });
  add("reserved, but free (fragmentation)", [](const HeldMemory& held) { return held.unused_bytes(); });
  return table;
}

Table group_table(const HeldMemory& held, std::optional<MemoryCategory> only, std::size_t top) {
  Table table;
  table.columns = {right("bytes"), {"share", "%", "{:.1f}"}, right("blocks"), right("each"), left("formula", 2)};
  if (!only) table.columns.push_back(left("category", 1));
  table.columns.push_back(left("op"));
  table.columns.push_back(left("module"));
  table.key_columns = table.columns.size();
  const std::size_t whole = only ? held.level.by_category[static_cast<std::size_t>(*only)] : held.level.allocated_bytes;
  std::size_t shown = 0, rest_bytes = 0, rest_blocks = 0;
  for (const MemoryGroup& group : held.groups) {
    if (only && group.category != *only) continue;
    if (shown == top) {
      rest_bytes += group.bytes;
      rest_blocks += group.blocks;
      continue;
    }
    ++shown;
    Cells cells = {bytes(group.bytes), percent(group.bytes, whole), count(group.blocks), bytes(group.block_bytes()),
                   text_cell(group.formula)};
    if (!only) cells.emplace_back(std::string(name(group.category)));
    cells.emplace_back(group.op);
    cells.emplace_back(name_of(group));
    table.add(std::move(cells));
  }
  if (rest_blocks > 0)
    table.add({bytes(rest_bytes), percent(rest_bytes, whole), count(rest_blocks)}, "others; --top 0 shows all");
  return table;
}

Table request_table(const std::vector<MemoryRequest>& requests, std::size_t top) {
  Table table;
  table.columns = {right("each"),    left("formula"), right("times"),     right("at the peak"), left("category", 2),
                   left("phase", 1), left("op"),      left("made at", 3), left("module")};
  table.key_columns = table.columns.size();
  for (std::size_t i = 0; i < std::min(top, requests.size()); ++i) {
    const MemoryGroup& group = requests[i].group;
    table.add({bytes(group.block_bytes()), text_cell(group.formula), count(group.blocks), count(requests[i].held),
               std::string(name(group.category)), std::string(name(group.phase)), group.op, text_cell(group.source),
               name_of(group)});
  }
  return table;
}

}  // namespace ridgepoint::views
