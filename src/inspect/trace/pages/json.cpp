#include <algorithm>
#include <cmath>
#include <string>

#include "inspect/trace/pages/page.h"

namespace ridgepoint::tables {
namespace {

double in_us(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }
double in_ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

double ratio_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json kernels_of(const TraceLane& lane, const KernelSum& all) {
  Json rows = Json::array();
  for (const KernelRow& row : by_kernel(lane.timeline)) {
    rows.push_back({{"name", row.name},
                    {"class", name(row.kernel_class)},
                    {"calls", row.sum.calls},
                    {"total_us", in_us(row.sum.time_ns)},
                    {"share_of_kernel_time", ratio_of(row.sum.time_ns, all.time_ns)},
                    {"avg_us", row.us.mean},
                    {"median_us", row.us.median},
                    {"min_us", row.us.min},
                    {"max_us", row.us.max},
                    {"std_us", json_number(row.us.std)}});
  }
  return rows;
}

Json classes_of(const TraceLane& lane, const KernelSum& all) {
  Json rows = Json::array();
  for (const ClassRow& row : by_class(lane.timeline)) {
    rows.push_back({{"phase", lane.timeline.has_phases ? Json(name(row.phase)) : Json(nullptr)},
                    {"class", name(row.kernel_class)},
                    {"calls", row.sum.calls},
                    {"total_us", in_us(row.sum.time_ns)},
                    {"share_of_kernel_time", ratio_of(row.sum.time_ns, all.time_ns)}});
  }
  return rows;
}

Json scopes_of(const TraceLane& lane, const KernelSum& all, int depth) {
  Json rows = Json::array();
  for (const ScopeRow& row : by_scope(lane.timeline, depth)) {
    rows.push_back({{"path", row.path},
                    {"level", row.level},
                    {"is_op", row.is_op},
                    {"calls", row.sum.calls},
                    {"total_us", in_us(row.sum.time_ns)},
                    {"share_of_kernel_time", ratio_of(row.sum.time_ns, all.time_ns)}});
  }
  return rows;
}

Json steps_of(const TraceLane& lane) {
  Json rows = Json::array();
  for (const TraceStep& step : lane.steps) {
    rows.push_back({{"name", step.name},
                    {"ms", in_ms(step.wall_ns())},
                    {"kernels", step.kernels},
                    {"kernel_ms", in_ms(step.kernel_ns)},
                    {"busy_ms", in_ms(step.busy_ns)}});
  }
  return rows;
}

Json idle_of(const TraceLane& lane) {
  Json rows = Json::array();
  for (const IdleCause cause : kIdleCauses) {
    const auto i = static_cast<std::size_t>(cause);
    if (lane.idle.gaps[i] == 0) continue;
    rows.push_back({{"cause", name(cause)},
                    {"us", in_us(lane.idle.by_cause_ns[i])},
                    {"share_of_span", ratio_of(lane.idle.by_cause_ns[i], lane.idle.wall_ns)},
                    {"gaps", lane.idle.gaps[i]},
                    {"longest_us", in_us(lane.idle.longest[i]->duration_ns)}});
  }
  return rows;
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
          {"dtype", found->dtype.empty() ? Json(nullptr) : Json(found->dtype)},
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

Json trace_document(const TraceLane& lane, const TraceViewOptions& options) {
  const KernelSum all = total(lane.timeline);
  Json json = {{"file", lane.file},
               {"format", lane.format},
               {"rank", or_null(lane.rank)},
               {"ranks", or_null(lane.ranks)},
               {"device", lane.device.empty() ? Json(nullptr) : Json(lane.device)},
               {"selection", lane.selection.empty() ? Json(nullptr) : Json(lane.selection)},
               {"events", lane.events},
               {"streams", lane.streams},
               {"copies", lane.copies},
               {"fills", lane.fills},
               {"busy_us", in_us(lane.idle.busy_ns)},
               {"span_us", in_us(lane.idle.wall_ns)},
               {"overlap_us", in_us(lane.idle.overlap_ns)}};
  json["kernels"] = {
      {"count", lane.kernels.calls}, {"total_us", in_us(lane.kernels.time_ns)}, {"by_name", kernels_of(lane, all)}};
  json["classes"] = classes_of(lane, all);
  json["scopes"] = scopes_of(lane, all, options.depth);
  json["steps"] = steps_of(lane);
  json["repetition"] = nullptr;
  if (lane.repetition)
    json["repetition"] = {{"times", lane.repetition->times},
                          {"kernels", lane.repetition->kernels},
                          {"mean_us", lane.repetition->mean_ns / 1e3}};
  json["idle"] = idle_of(lane);
  json["launches"] = launches_of(lane.launches);
  json["products"] = products_of(lane.products);
  json["communication"] = communication_of(lane.collectives);
  json["critical_path"] = path_of(lane);
  json["faults"] = trace_faults(lane);
  return json;
}

}  // namespace ridgepoint::tables
