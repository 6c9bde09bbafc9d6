// A snapshot's report as JSON and as rows of CSV.
#include <utility>

#include "inspect/snapshot/pages/parts.h"

namespace ridgepoint::views {
namespace {

constexpr std::size_t kMostPhases = 10000;

Json json_of(const MemoryLevels& levels) {
  return {{"allocated_bytes", levels.allocated_bytes},
          {"active_bytes", levels.active_bytes},
          {"reserved_bytes", levels.reserved_bytes}};
}

Json json_of_categories(const MemoryContents& contents) {
  Json list = Json::array();
  for (const MemoryShare& share : contents.categories) {
    list.push_back({{"name", share.name}, {"bytes", share.bytes}, {"blocks", share.blocks}});
  }
  return list;
}

Json json_of_origins(const MemoryContents& contents) {
  Json list = Json::array();
  for (const MemoryShare& share : contents.origins) {
    list.push_back({{"frame", share.name},
                    {"called_from", share.caller.empty() ? Json(nullptr) : Json(share.caller)},
                    {"bytes", share.bytes},
                    {"blocks", share.blocks}});
  }
  return list;
}

Json json_of(const SnapshotPhase& phase) {
  return {{"name", phase.name},
          {"depth", phase.depth},
          {"begin_event", phase.begin.moment},
          {"end_event", phase.end.moment},
          {"begin_us", phase.begin.time_us},
          {"end_us", phase.end.time_us},
          {"begin_allocated_bytes", phase.begin_bytes},
          {"peak_allocated_bytes", phase.peak_bytes},
          {"end_allocated_bytes", phase.end_bytes}};
}

Json json_of(const SnapshotOutOfMemory& failure) {
  Json json = {{"event", failure.when.moment},
               {"time_us", failure.when.time_us},
               {"requested_bytes", failure.requested_bytes},
               {"device_free_bytes", failure.device_free_bytes ? Json(*failure.device_free_bytes) : Json(nullptr)},
               {"frame", failure.origin}};
  json.update(json_of(failure.levels));
  json["categories"] = json_of_categories(failure.held);
  json["frames"] = json_of_origins(failure.held);
  json["advice"] = failure.advice;
  return json;
}

Json json_of(const SnapshotLeaks& leaks) {
  Json json = {{"basis", name(leaks.basis)},
               {"name", leaks.name.empty() ? Json(nullptr) : Json(leaks.name)},
               {"repetitions", leaks.repetitions},
               {"compared_from", leaks.compared_from},
               {"grew", leaks.grew},
               {"groups", Json::array()}};
  for (const SnapshotLeak& leak : leaks.groups) {
    json["groups"].push_back({{"frame", leak.origin},
                              {"called_from", leak.caller.empty() ? Json(nullptr) : Json(leak.caller)},
                              {"block_bytes", leak.block_bytes},
                              {"blocks", leak.blocks},
                              {"bytes", leak.bytes}});
  }
  return json;
}

Json json_of(const SnapshotSawtooth& sawtooth) {
  return {{"verdict", name(sawtooth.verdict)},     {"cycles", sawtooth.cycles},
          {"height_bytes", sawtooth.height_bytes}, {"rise_us", sawtooth.rise_us},
          {"fall_us", sawtooth.fall_us},           {"rise_events", sawtooth.rise_events},
          {"fall_events", sawtooth.fall_events},   {"allocator_share", sawtooth.allocator_share},
          {"evidence", sawtooth.evidence}};
}

Json json_of(const SnapshotFragmentation& found) {
  return {{"reserved_not_active_at_peak_bytes", found.at_peak_bytes},
          {"free_at_end_bytes", found.at_end_bytes},
          {"free_blocks_at_end", found.free_blocks},
          {"largest_free_block_bytes", found.largest_free_bytes},
          {"unused_segment_bytes", found.unused_segment_bytes},
          {"rounding_at_peak_bytes", found.rounding_bytes}};
}

}  // namespace

Json snapshot_json(const SnapshotFileView& file, const SnapshotReport& report) {
  Json json = {{"file", file.path},
               {"format", file.format},
               {"device", report.device},
               {"events", report.events},
               {"begin_us", report.begin_us},
               {"end_us", report.end_us},
               {"segments", report.segments},
               {"live_blocks", report.blocks},
               {"history_complete", report.history_complete},
               {"history_incomplete_because", report.incomplete_because},
               {"at_start", json_of(report.start)}};
  json["peak"] = json_of(report.peak);
  json["peak"]["event"] = report.peak_moment.moment;
  json["peak"]["time_us"] = report.peak_moment.time_us;
  json["at_peak"] = json_of(report.at_peak);
  json["at_end"] = json_of(report.end);
  json["categories_inferred"] = report.categories_inferred;
  json["categories"] = json_of_categories(report.contents);
  json["frames"] = json_of_origins(report.contents);
  json["phases"] = Json::array();
  for (std::size_t i = 0; i < report.phases.size() && i < kMostPhases; ++i) {
    json["phases"].push_back(json_of(report.phases[i]));
  }
  json["phase_count"] = report.phases.size();
  json["fragmentation"] = json_of(report.fragmentation);
  json["leaked_bytes"] = report.leaks.leaked_bytes;
  json["leaks"] = json_of(report.leaks);
  json["oom_events"] = Json::array();
  for (const SnapshotOutOfMemory& failure : report.out_of_memory) json["oom_events"].push_back(json_of(failure));
  json["allocator_retries"] = {{"count", report.retries.count},
                               {"segments", report.retries.segments},
                               {"bytes", report.retries.bytes},
                               {"before_oom", report.retries.before_oom}};
  json["sawtooth"] = json_of(report.sawtooth);
  json["remarks"] = report.remarks;
  return json;
}

}  // namespace ridgepoint::views
