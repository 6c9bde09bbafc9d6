// The parts of a page of a run's memory.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "inspect/memory/measure_memory.h"
#include "inspect/memory/timeline.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

// Categories that a picture draws as one layer, from the bottom to the top.
struct MemoryLayer {
  std::string_view name;
  std::string_view shade;  // one character
  std::string_view colour;
  std::span<const MemoryCategory> categories;
};
std::span<const MemoryLayer> memory_layers();
// The bytes of a layer's categories.
std::size_t bytes_of(const MemoryLayer& layer, const CategoryBytes& by_category);

// The timeline in characters, at most `width` wide with its scale.
Table timeline_chart(const MemoryHistory& history, TimelineAxis axis, std::size_t width);

Table level_table(const MemoryRun& run);
// A row a rank of each run that was divided among ranks.
Table rank_table(std::span<const MemoryRun> runs);
// What each phase's peak is made of; the last rows are what the allocator adds.
Table phase_table(const MemoryPeaks& peaks);
// The groups of one category, or of all, largest first.
Table group_table(const HeldMemory& held, std::optional<MemoryCategory> only, std::size_t top);
Table request_table(const std::vector<MemoryRequest>& requests, std::size_t top);

// Sentences; empty where there is nothing to say.
std::string device_sentence(const Record& record);
std::string residual_sentence(const MemoryRun& run);
std::string sawtooth_sentence(const MemoryRun& run);

// All figures of a run, the fields of its record included.
Json memory_json(const MemoryRun& run);

}  // namespace ridgepoint::views
