// A run's memory and the report of a file as documents, and the report as rows of CSV.
#include <algorithm>

#include "core/memory_category.h"
#include "inspect/memory/pages/parts.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

constexpr std::size_t kMostPhases = 10000;

Json json_of(const MemoryLevels& levels) {
  return {{"allocated_bytes", levels.allocated_bytes},
          {"active_bytes", levels.active_bytes},
          {"requested_bytes", levels.requested_bytes},
          {"reserved_bytes", levels.reserved_bytes}};
}

Json json_of_categories(const MemoryContents& contents) {
  return json_list(contents.categories, [](const MemoryShare& share) -> Json {
    return {{"name", share.name}, {"bytes", share.bytes}, {"blocks", share.blocks}};
  });
}

Json json_of_origins(const MemoryContents& contents) {
  return json_list(contents.origins, [](const MemoryShare& share) -> Json {
    return {{"frame", share.name},
            {"library", text_or_null(share.library)},
            {"bytes", share.bytes},
            {"blocks", share.blocks}};
  });
}

Json json_of(const MemoryGroup& group) {
  return {{"category", group.category}, {"phase", group.phase},
          {"module", group.module},     {"op", group.op},
          {"source", group.source},     {"formula", group.formula},
          {"blocks", group.blocks},     {"block_bytes", group.block_bytes()},
          {"bytes", group.bytes}};
}

Json json_of(const std::vector<MemoryGroup>& groups) {
  return json_list(groups, [](const MemoryGroup& group) { return json_of(group); });
}

Json json_of(const MemoryContents& contents) {
  Json json = {{"allocated_bytes", contents.levels.allocated_bytes},
               {"requested_bytes", contents.levels.requested_bytes},
               {"reserved_bytes", contents.levels.reserved_bytes}};
  for (const std::string_view category : kMemoryCategoryNames.all())
    json["by_category"][std::string(category)] = contents.bytes_of(category);
  for (const MemoryShare& share : contents.categories) json["by_category"][share.name] = share.bytes;
  json["event"] = contents.at.moment;
  json["groups"] = json_of(contents.groups);
  return json;
}

Json json_of_phase_peaks(const MemoryReport& report) {
  return json_list(report.phase_peaks, [](const PhasePeak& peak) {
    Json json = json_of(peak.contents);
    json["name"] = peak.phase;
    return json;
  });
}

Json before_backward_json(const MemoryReport& report) {
  return report.before_backward ? json_of(*report.before_backward) : Json(nullptr);
}

Json block_json(const MemoryReport& report) {
  if (!report.block) return nullptr;
  const BlockContents& block = *report.block;
  return {{"name", block.name},
          {"saved_bytes", block.saved.bytes_of(name(MemoryCategory::activation))},
          {"requested_saved_bytes", block.requested_saved_bytes()},
          {"gradient_bytes", or_null(block.gradient_bytes)},
          {"requested_gradient_bytes", or_null(block.requested_gradient_bytes)},
          {"saved", json_of(block.saved.groups)}};
}

Json time_json(const MemoryReport& report, std::int64_t us) { return report.has_times ? Json(us) : Json(nullptr); }
Cell time_cell(const MemoryReport& report, std::int64_t us) { return report.has_times ? Cell(us) : Cell(); }

Json json_of(const MemoryReport& report, const MemoryPhase& phase) {
  return {{"name", phase.name},
          {"depth", phase.depth},
          {"begin_event", phase.begin.moment},
          {"end_event", phase.end.moment},
          {"begin_us", time_json(report, phase.begin.time_us)},
          {"end_us", time_json(report, phase.end.time_us)},
          {"begin_allocated_bytes", phase.begin_bytes},
          {"peak_allocated_bytes", phase.peak_bytes},
          {"end_allocated_bytes", phase.end_bytes}};
}

Json json_of(const MemoryReport& report, const OutOfMemoryEvent& failure) {
  Json json = {{"event", failure.when.moment},
               {"time_us", time_json(report, failure.when.time_us)},
               {"device_free_bytes", or_null(failure.device_free_bytes)},
               {"frame", failure.origin}};
  json.update(json_of(failure.held.levels));
  json["requested_bytes"] = failure.requested_bytes;
  json["categories"] = json_of_categories(failure.held);
  json["frames"] = json_of_origins(failure.held);
  json["advice"] = failure.advice;
  return json;
}

Json json_of(const MemoryLeaks& leaks) {
  const auto of_leak = [](const MemoryLeak& leak) -> Json {
    return {{"frame", leak.origin},
            {"library", text_or_null(leak.library)},
            {"block_bytes", leak.block_bytes},
            {"blocks", leak.blocks},
            {"bytes", leak.bytes}};
  };
  return {{"basis", name(leaks.basis)},
          {"name", text_or_null(leaks.name)},
          {"repetitions", leaks.repetitions},
          {"compared_from", leaks.compared_from},
          {"grew", leaks.grew},
          {"groups", json_list(leaks.groups, of_leak)}};
}

Json json_of(const Sawtooth& sawtooth, bool has_times) {
  const auto timed = [&](double figure) { return has_times ? Json(figure) : Json(nullptr); };
  return {{"cycles", sawtooth.cycles},
          {"height_bytes", sawtooth.height_bytes},
          {"rise_ms", timed(sawtooth.rise_ms)},
          {"fall_ms", timed(sawtooth.fall_ms)},
          {"rise_events", sawtooth.rise_events},
          {"fall_events", sawtooth.fall_events},
          {"rise_steps", sawtooth.rise_steps},
          {"fall_steps", sawtooth.fall_steps},
          {"segment_requests", sawtooth.segment_requests},
          {"allocator_retries", sawtooth.retries},
          {"allocator_share", timed(sawtooth.allocator_share)},
          {"busy_share", or_null(sawtooth.busy_share)},
          {"verdict", name(sawtooth.verdict)}};
}

Json json_of(const MemoryReport& report, const Fragmentation& found) {
  return {{"reserved_not_active_at_peak_bytes", found.at_peak_bytes},
          {"free_at_end_bytes", found.at_end_bytes},
          {"free_blocks_at_end", found.free_blocks},
          {"largest_free_block_bytes", found.largest_free_bytes},
          {"unused_segment_bytes", found.unused_segment_bytes},
          {"rounding_at_peak_bytes", report.contents.rounding_bytes()}};
}

Json rank_json(const RankMemory& rank) {
  return {{"rank", rank.rank},
          {"initialised_bytes", rank.initialised_bytes},
          {"before_optimizer_bytes", or_null(rank.before_optimizer_bytes)},
          {"after_optimizer_bytes", or_null(rank.after_optimizer_bytes)},
          {"peak_allocated_bytes", rank.peak_bytes},
          {"peak_reserved_bytes", rank.peak_reserved_bytes},
          {"host_bytes", or_null(rank.host_bytes)}};
}

class Rows {
 public:
  explicit Rows(Table& table) : table_(table) {}

  void add(const MemoryReport& report) {
    device_ = report.device;
    levels("at_start", report.start);
    levels("peak", report.peak);
    levels("at_peak", report.contents.levels);
    levels("at_end", report.end);
    for (const MemoryShare& share : report.contents.categories)
      row("category", share.name, "", share.blocks, share.bytes);
    for (const MemoryShare& share : report.contents.origins) {
      row("frame", share.name, share.library, share.blocks, share.bytes);
    }
    for (const MemoryPhase& phase : report.phases) {
      table_.add({device_, "phase", phase.name, Cell(), Cell(), count_cell(phase.peak_bytes),
                  count_cell(phase.begin_bytes), count_cell(phase.end_bytes), time_cell(report, phase.begin.time_us),
                  time_cell(report, phase.end.time_us)});
    }
    row("leaked", "all", "", {}, report.leaks.leaked_bytes);
    for (const MemoryLeak& leak : report.leaks.groups) row("leak", leak.origin, leak.library, leak.blocks, leak.bytes);
    for (const OutOfMemoryEvent& failure : report.out_of_memory) {
      table_.add({device_, "oom", failure.origin, Cell(), Cell(), count_cell(failure.requested_bytes), Cell(), Cell(),
                  time_cell(report, failure.when.time_us), Cell()});
    }
    row("allocator_retries", "all", "", report.retries.count, report.retries.bytes);
  }

 private:
  void row(const char* section, const std::string& name, const std::string& library, std::optional<std::uint64_t> count,
           std::uint64_t bytes) {
    table_.add({device_, section, name, text_cell(library), count ? count_cell(*count) : Cell(), count_cell(bytes),
                Cell(), Cell(), Cell(), Cell()});
  }
  void levels(const char* section, const MemoryLevels& levels) {
    row(section, "allocated", "", {}, levels.allocated_bytes);
    row(section, "active", "", {}, levels.active_bytes);
    row(section, "requested", "", {}, levels.requested_bytes);
    row(section, "reserved", "", {}, levels.reserved_bytes);
  }

  Table& table_;
  std::int64_t device_ = 0;
};

}  // namespace

Json memory_json(const MemoryRun& run) {
  Json json = parse_json(to_json(run.run));
  Json& memory = json["memory"] = nullptr;
  if (!run.has_figures()) return json;
  const MemoryReport& report = run.memory.report;
  memory = Json::object();
  memory["events"] = report.events;
  memory["phases"] = json_of_phase_peaks(report);
  memory["before_backward"] = before_backward_json(report);
  memory["block"] = block_json(report);
  memory["largest_allocations"] = json_list(run.requests, [](const MemoryRequest& request) {
    Json group = json_of(request.group);
    group["at_peak"] = request.held;
    return group;
  });
  memory["residual_activation"] =
      run.residual ? Json{{"bytes", run.residual->bytes}, {"formula", run.residual->formula}} : Json(nullptr);
  memory["sawtooth"] = report.sawtooth.cycles > 0 ? json_of(report.sawtooth, report.has_times) : Json(nullptr);
  memory["ranks"] = json_list(run.ranks, [](const RankMemory& rank) { return rank_json(rank); });
  return json;
}

Json snapshot_json(const SnapshotFileView& file, const MemoryReport& report) {
  Json json = {{"file", file.path},
               {"format", file.format},
               {"device", report.device},
               {"events", report.events},
               {"begin_us", time_json(report, report.begin_us)},
               {"end_us", time_json(report, report.end_us)},
               {"segments", report.segments},
               {"live_blocks", report.blocks},
               {"history_complete", report.history_complete},
               {"history_incomplete_because", report.incomplete_because},
               {"at_start", json_of(report.start)}};
  json["range"] = report.window.is_range ? Json{{"begin_event", report.window.begin.moment},
                                                {"end_event", report.window.end.moment},
                                                {"begin_us", time_json(report, report.window.begin.time_us)},
                                                {"end_us", time_json(report, report.window.end.time_us)}}
                                         : Json(nullptr);
  json["peak"] = json_of(report.peak);
  json["peak"]["event"] = report.contents.at.moment;
  json["peak"]["time_us"] = time_json(report, report.contents.at.time_us);
  json["at_peak"] = json_of(report.contents.levels);
  json["at_end"] = json_of(report.end);
  json["categories_inferred"] = report.categories_inferred;
  json["categories"] = json_of_categories(report.contents);
  json["frames"] = json_of_origins(report.contents);
  json["groups"] = json_of(report.contents.groups);
  json["phase_peaks"] = json_of_phase_peaks(report);
  json["before_backward"] = before_backward_json(report);
  json["block"] = block_json(report);
  json["phases"] = json_list(std::span(report.phases).first(std::min(report.phases.size(), kMostPhases)),
                             [&](const MemoryPhase& phase) { return json_of(report, phase); });
  json["phase_count"] = report.phases.size();
  json["fragmentation"] = json_of(report, report.fragmentation);
  json["leaked_bytes"] = report.leaks.leaked_bytes;
  json["leaks"] = json_of(report.leaks);
  json["oom_events"] =
      json_list(report.out_of_memory, [&](const OutOfMemoryEvent& failure) { return json_of(report, failure); });
  json["allocator_retries"] = {{"count", report.retries.count},
                               {"segments", report.retries.segments},
                               {"bytes", report.retries.bytes},
                               {"before_oom", report.retries.before_oom}};
  json["sawtooth"] = json_of(report.sawtooth, report.has_times);
  json["sawtooth"]["evidence"] = sawtooth_sentence(report, false, "");
  json["remarks"] = report.remarks;
  return json;
}

Table snapshot_rows(const SnapshotFileView& file) {
  Table table = with_columns(
      {"device", "section", "name", "library", "count", "bytes", "begin_bytes", "end_bytes", "begin_us", "end_us"});
  Rows rows(table);
  for (const MemoryReport& report : file.devices) rows.add(report);
  return table;
}

}  // namespace ridgepoint::tables
