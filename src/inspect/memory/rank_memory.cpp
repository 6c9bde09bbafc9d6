#include "inspect/memory/rank_memory.h"

#include <algorithm>
#include <string>

#include "core/text/json.h"
#include "runtime/device/process_group.h"

namespace ridgepoint {
namespace {

Json to_json(const std::optional<std::size_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

std::optional<std::size_t> optional_bytes(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<std::size_t>());
}

}  // namespace

RankMemory memory_of_rank(std::size_t rank, const MemoryHistory& history) {
  RankMemory memory{.rank = rank};
  const std::vector<std::size_t> allocated = allocated_by_moment(history);
  memory.initialised_bytes = allocated[history.iterations.front().begin];
  for (const PhaseSpan& span : history.phases) {
    if (span.phase != Phase::optimizer || span.iteration + 1 != history.iterations.size()) continue;
    if (!memory.before_optimizer_bytes) memory.before_optimizer_bytes = allocated[span.begin];
    memory.after_optimizer_bytes = allocated[span.end];
  }
  walk_levels(history, [&](std::size_t moment, const MemoryEvent&, const MemoryLevel& level) {
    if (moment < history.begin()) return;
    memory.peak_bytes = std::max(memory.peak_bytes, level.allocated_bytes);
    memory.peak_reserved_bytes = std::max(memory.peak_reserved_bytes, level.reserved_bytes);
  });
  return memory;
}

std::vector<RankMemory> gather_memory(ProcessGroup& group, const RankMemory& mine) {
  const Json sent = {mine.initialised_bytes, to_json(mine.before_optimizer_bytes), to_json(mine.after_optimizer_bytes),
                     mine.peak_bytes, mine.peak_reserved_bytes};
  std::vector<RankMemory> all;
  for (const std::string& text : group.all_gather(dump_json(sent), "memory")) {
    const Json got = parse_json(text);
    all.push_back({.rank = all.size(),
                   .initialised_bytes = got[0],
                   .before_optimizer_bytes = optional_bytes(got[1]),
                   .after_optimizer_bytes = optional_bytes(got[2]),
                   .peak_bytes = got[3],
                   .peak_reserved_bytes = got[4]});
  }
  return all;
}

}  // namespace ridgepoint
