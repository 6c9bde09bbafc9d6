#include <string>

#include "inspect/trace/pages/page.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

double in_ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

double ratio_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

Table kernels_of(const TraceLane& lane, const KernelSum& all) {
  Table rows = with_columns({"name", "class", "calls", "total_us", "share_of_kernel_time", "avg_us", "median_us",
                             "min_us", "max_us", "std_us"});
  for (const KernelRow& row : by_kernel(lane.timeline)) {
    rows.add({row.name, std::string(name(row.kernel_class)), row.sum.calls, in_us(row.sum.time_ns),
              ratio_of(row.sum.time_ns, all.time_ns), row.us.mean, row.us.median, row.us.min, row.us.max, row.us.std});
  }
  return rows;
}

Table classes_of(const TraceLane& lane, const KernelSum& all) {
  Table rows = with_columns({"phase", "class", "calls", "total_us", "share_of_kernel_time"});
  for (const ClassRow& row : by_class(lane.timeline)) {
    rows.add({lane.timeline.has_phases ? Cell(std::string(name(row.phase))) : Cell(),
              std::string(name(row.kernel_class)), row.sum.calls, in_us(row.sum.time_ns),
              ratio_of(row.sum.time_ns, all.time_ns)});
  }
  return rows;
}

Table scopes_of(const TraceLane& lane, const KernelSum& all, int depth) {
  Table rows = with_columns({"path", "level", "is_op", "calls", "total_us", "share_of_kernel_time"});
  for (const ScopeRow& row : by_scope(lane.timeline, depth)) {
    rows.add({row.path, std::int64_t{row.level}, row.is_op, row.sum.calls, in_us(row.sum.time_ns),
              ratio_of(row.sum.time_ns, all.time_ns)});
  }
  return rows;
}

Table steps_of(const TraceLane& lane) {
  Table rows = with_columns({"name", "ms", "kernels", "kernel_ms", "busy_ms", "allocating_ms", "waiting_ms"});
  for (const TraceStep& step : lane.steps) {
    rows.add({step.name, in_ms(step.wall_ns()), step.kernels, in_ms(step.kernel_ns), in_ms(step.busy_ns),
              in_ms(step.allocating_ns), in_ms(step.waiting_ns)});
  }
  return rows;
}

Table idle_of(const TraceLane& lane) {
  Table rows = with_columns({"cause", "us", "share_of_span", "gaps", "longest_us"});
  for (const IdleCause cause : kIdleCauses) {
    const auto i = static_cast<std::size_t>(cause);
    if (lane.idle.gaps[i] == 0) continue;
    rows.add({std::string(name(cause)), in_us(lane.idle.by_cause_ns[i]),
              ratio_of(lane.idle.by_cause_ns[i], lane.idle.wall_ns), lane.idle.gaps[i],
              in_us(lane.idle.longest[i]->duration_ns)});
  }
  return rows;
}

Json first_step_of(const TraceLane& lane) {
  Table rows = with_columns({"what", "first_ms", "later_ms"});
  for (const FirstStepRow& row : first_against_later(lane.steps)) rows.add({row.what, row.first_ms, row.later_ms});
  return to_json(rows);
}

Json roofline_of(const std::optional<TraceRoofline>& found) {
  if (!found) return nullptr;
  Table rows = with_columns({"class", "calls", "total_us", "flops", "bytes", "flops_per_second", "bytes_per_second",
                             "share_of_flops_rate", "share_of_bandwidth", "floor_us", "bound_by"});
  for (const RooflineRow& row : found->classes) {
    const auto time_ns = static_cast<double>(row.sum.time_ns);
    const auto part = [&](double value) { return time_ns > 0 ? value / time_ns : 0.0; };
    rows.add({row.what, row.sum.calls, in_us(row.sum.time_ns), row.sum.flops, row.sum.bytes,
              part(static_cast<double>(row.sum.flops)) * 1e9, part(static_cast<double>(row.sum.bytes)) * 1e9,
              part(row.compute_ns), part(row.memory_ns), row.floor_ns / 1e3, std::string(bound_of(row))});
  }
  return {{"card", found->card}, {"bytes_per_second", found->bytes_per_second}, {"classes", to_json(rows)}};
}

Json launches_of(const LaunchDelay& found) {
  if (found.launches == 0) return nullptr;
  return {{"count", found.launches},        {"median_us", in_us(found.median_ns)},
          {"p95_us", in_us(found.p95_ns)},  {"max_us", in_us(found.most_ns)},
          {"mean_queue", found.mean_queue}, {"longest_queue", found.longest_queue}};
}

Json products_of(const std::optional<TraceProducts>& found) {
  if (!found) return nullptr;
  return {{"flops", found->flops},
          {"total_us", in_us(found->time_ns)},
          {"flops_per_second", found->flops_per_second()},
          {"dtype", text_or_null(found->dtype)},
          {"datasheet_flops_per_second", or_null(found->datasheet_flops_per_second)}};
}

Json path_of(const TraceLane& lane) {
  Json rows = Json::array();
  const auto add = [&](std::string_view what, std::int64_t ns) {
    if (ns > 0) rows.push_back({{"what", what}, {"us", in_us(ns)}, {"share_of_span", ratio_of(ns, lane.idle.wall_ns)}});
  };
  for (std::size_t i = 0; i < kKernelClasses.size(); ++i) add(name(kKernelClasses[i]), lane.path.by_class_ns[i]);
  for (std::size_t i = 0; i < kIdleCauses.size(); ++i) add(name(kIdleCauses[i]), lane.path.by_cause_ns[i]);
  return rows;
}

Json communication_of(const Communication& found) {
  if (found.collectives.empty()) return nullptr;
  return {{"collectives", found.collectives.size()},
          {"total_us", in_us(found.time_ns)},
          {"exposed_us", in_us(found.exposed_ns)},
          {"alone_us", in_us(found.alone_ns)}};
}

}  // namespace

Table trace_rows(const TraceLane& lane, TraceBreakdown which, int depth) {
  const KernelSum all = total(lane.timeline);
  switch (which) {
    case TraceBreakdown::kernel: return kernels_of(lane, all);
    case TraceBreakdown::op_class: return classes_of(lane, all);
    case TraceBreakdown::scope: return scopes_of(lane, all, depth);
    case TraceBreakdown::step: return steps_of(lane);
    case TraceBreakdown::idle: return idle_of(lane);
  }
  return {};
}

Json trace_document(const TraceLane& lane, const TraceViewOptions& options) {
  const auto rows = [&](TraceBreakdown which) { return to_json(trace_rows(lane, which, options.depth)); };
  const auto timed_us = [&](std::int64_t ns) { return lane.timeline.sums.empty() ? Json(in_us(ns)) : Json(nullptr); };
  Json json = {{"file", lane.file},
               {"format", lane.format},
               {"rank", or_null(lane.rank)},
               {"ranks", or_null(lane.ranks)},
               {"device", text_or_null(lane.device)},
               {"selection", text_or_null(lane.selection)},
               {"events", lane.events},
               {"streams", lane.streams},
               {"copies", lane.copies},
               {"fills", lane.fills},
               {"busy_us", timed_us(lane.idle.busy_ns)},
               {"span_us", timed_us(lane.idle.wall_ns)},
               {"overlap_us", timed_us(lane.idle.overlap_ns)}};
  json["kernels"] = {{"count", lane.kernels.calls},
                     {"total_us", in_us(lane.kernels.time_ns)},
                     {"by_name", rows(TraceBreakdown::kernel)}};
  json["classes"] = rows(TraceBreakdown::op_class);
  json["scopes"] = rows(TraceBreakdown::scope);
  json["steps"] = rows(TraceBreakdown::step);
  json["first_step"] = first_step_of(lane);
  json["repetition"] = nullptr;
  if (lane.repetition)
    json["repetition"] = {{"times", lane.repetition->times},
                          {"kernels", lane.repetition->kernels},
                          {"mean_us", lane.repetition->mean_ns / 1e3}};
  json["idle"] = rows(TraceBreakdown::idle);
  json["launches"] = launches_of(lane.launches);
  json["products"] = products_of(lane.products);
  json["roofline"] = roofline_of(lane.roofline);
  json["communication"] = communication_of(lane.collectives);
  json["critical_path"] = path_of(lane);
  json["memory"] = memory_document(lane);
  json["faults"] = trace_faults(lane);
  return json;
}

}  // namespace ridgepoint::tables
