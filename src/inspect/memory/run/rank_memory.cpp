#include "inspect/memory/run/rank_memory.h"

#include <algorithm>
#include <string>

#include "core/text/json.h"
#include "ridgepoint/graph.h"
#include "runtime/device/process_group.h"

namespace ridgepoint {
namespace {

Json to_json(const std::optional<std::size_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

std::optional<std::size_t> optional_bytes(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<std::size_t>());
}

}  // namespace

RankMemory memory_of_rank(std::size_t rank, const MemoryReport& report) {
  RankMemory memory{
      .rank = rank, .peak_bytes = report.peak.allocated_bytes, .peak_reserved_bytes = report.peak.reserved_bytes};
  if (!report.phases.empty()) memory.initialised_bytes = report.phases.front().begin_bytes;
  const auto last =
      std::ranges::find_if(report.phases.rbegin(), report.phases.rend(), [](const auto& p) { return p.depth == 0; });
  for (auto phase = last.base(); phase != report.phases.end(); ++phase) {
    if (phase->name != name(Phase::optimizer)) continue;
    if (!memory.before_optimizer_bytes) memory.before_optimizer_bytes = phase->begin_bytes;
    memory.after_optimizer_bytes = phase->end_bytes;
  }
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
