// A run's memory as a document.
#include "inspect/memory/pages/parts.h"
#include "tables/table/render.h"

namespace ridgepoint::views {
namespace {

Json level_json(const MemoryLevel& level) {
  Json json = {{"allocated_bytes", level.allocated_bytes},
               {"requested_bytes", level.requested_bytes},
               {"reserved_bytes", level.reserved_bytes}};
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i)
    json["by_category"][std::string(name(static_cast<MemoryCategory>(i)))] = level.by_category[i];
  return json;
}

Json group_json(const MemoryGroup& group) {
  return {{"category", name(group.category)},
          {"phase", name(group.phase)},
          {"module", group.module},
          {"op", group.op},
          {"source", group.source},
          {"formula", group.formula},
          {"blocks", group.blocks},
          {"block_bytes", group.block_bytes()},
          {"bytes", group.bytes}};
}

Json held_json(const HeldMemory& held) {
  Json json = level_json(held.level);
  json["event"] = held.moment;
  json["groups"] = Json::array();
  for (const MemoryGroup& group : held.groups) json["groups"].push_back(group_json(group));
  return json;
}

Json rank_json(const RankMemory& rank) {
  const auto optional = [](const std::optional<std::size_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); };
  return {{"rank", rank.rank},
          {"initialised_bytes", rank.initialised_bytes},
          {"before_optimizer_bytes", optional(rank.before_optimizer_bytes)},
          {"after_optimizer_bytes", optional(rank.after_optimizer_bytes)},
          {"peak_allocated_bytes", rank.peak_bytes},
          {"peak_reserved_bytes", rank.peak_reserved_bytes}};
}

Json sawtooth_json(const Sawtooth& sawtooth) {
  return {{"cycles", sawtooth.cycles},
          {"height_bytes", sawtooth.height_bytes},
          {"rise_ms", sawtooth.rise_ms},
          {"fall_ms", sawtooth.fall_ms},
          {"rise_events", sawtooth.rise_events},
          {"fall_events", sawtooth.fall_events},
          {"segment_requests", sawtooth.segment_requests},
          {"allocator_retries", sawtooth.retries},
          {"allocator_share", sawtooth.allocator_share},
          {"busy_share", sawtooth.busy_share ? Json(*sawtooth.busy_share) : Json(nullptr)},
          {"verdict", name(sawtooth.verdict)}};
}

}  // namespace

Json memory_json(const MemoryRun& run) {
  Json json = parse_json(to_json(run.run));
  Json& memory = json["memory"] = nullptr;
  if (!run.has_figures()) return json;
  memory = Json::object();
  memory["events"] = run.events;
  memory["phases"] = Json::array();
  for (const PhaseContents& peak : run.peaks.phases) {
    Json phase = held_json(peak.contents);
    phase["name"] = name(peak.phase);
    memory["phases"].push_back(std::move(phase));
  }
  memory["before_backward"] = run.peaks.before_backward ? held_json(*run.peaks.before_backward) : Json(nullptr);
  memory["largest_allocations"] = Json::array();
  for (const MemoryRequest& request : run.requests) {
    Json group = group_json(request.group);
    group["at_peak"] = request.held;
    memory["largest_allocations"].push_back(std::move(group));
  }
  memory["residual_activation"] =
      run.residual ? Json{{"bytes", run.residual->bytes}, {"formula", run.residual->formula}} : Json(nullptr);
  memory["sawtooth"] = run.sawtooth ? sawtooth_json(*run.sawtooth) : Json(nullptr);
  memory["ranks"] = Json::array();
  for (const RankMemory& rank : run.ranks) memory["ranks"].push_back(rank_json(rank));
  return json;
}

}  // namespace ridgepoint::views
