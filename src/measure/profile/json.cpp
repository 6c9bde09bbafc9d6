#include "measure/profile/json.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/enum_names.h"
#include "core/text.h"
#include "measure/profile/views.h"

namespace ridgepoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kBreakdownNames = enum_names<Breakdown>("kernel", "class", "scope", "launch");

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Turns sums over all profiled steps into figures of one.
class Writer {
 public:
  Writer(const Profile& profile, const ProfileDetail& detail)
      : profile_(profile),
        detail_(detail),
        steps_(static_cast<double>(std::max<std::size_t>(profile.steps.size(), 1))),
        total_(total(profile)),
        wall_ns_(static_cast<double>(wall_ns(profile))) {}

  Json rows(Breakdown breakdown) const {
    switch (breakdown) {
      case Breakdown::kernel:
        return kernels();
      case Breakdown::op_class:
        return classes();
      case Breakdown::scope:
        return scopes();
      case Breakdown::class_total:
        return class_totals();
      default:
        return launches();
    }
  }

  Json document() const {
    Json json = {{"problem", profile_.problem.empty() ? Json(nullptr) : Json(profile_.problem)},
                 {"steps", profile_.steps.size()},
                 {"dropped_records", profile_.dropped_records},
                 {"silent_launches", profile_.silent_launches},
                 {"matmul_flops_per_second", optional(profile_.matmul_flops_per_second)},
                 {"copy_bytes_per_second", optional(profile_.copy_bytes_per_second)}};
    if (const auto& selection = profile_.selection) {
      json["selection"] = {{"by", selection->by},
                           {"all_calls", per_step(selection->all_calls)},
                           {"all_time_ms", ms(static_cast<double>(selection->all_time_ns))}};
    }
    if (!profile_.has_kernels()) return json;
    // Of some kernels there are no gaps between kernels.
    json["time"] = profile_.selection ? Json(nullptr) : times();
    json["kernels"] = kernels();
    json["classes"] = classes();
    json["scopes"] = scopes();
    json["attention"] = attention();
    json["idle"] = profile_.selection ? Json::array() : idle();
    json["roofline"] = roofline(roofline_by_class(profile_), false);
    json["recoverable"] = roofline(recoverable_time(profile_), true);
    if (detail_.launches) json["launches"] = launches();
    return json;
  }

 private:
  static Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
  double ms(double ns) const { return ns / 1e6 / steps_; }
  Json per_step(std::int64_t count) const {
    const auto steps = static_cast<std::int64_t>(steps_);
    return count % steps == 0 ? Json(count / steps) : Json(static_cast<double>(count) / steps_);
  }

  void add_sum(Json& json, const KernelSum& sum) const {
    const auto time_ns = static_cast<double>(sum.time_ns);
    json["calls"] = per_step(sum.calls);
    json["time_ms"] = ms(time_ns);
    json["share_of_kernel_time"] = share(time_ns, static_cast<double>(total_.time_ns));
    json["share_of_wall_time"] = share(time_ns, wall_ns_);
    json["flops"] = per_step(sum.flops);
    json["share_of_flops"] = share(static_cast<double>(sum.flops), static_cast<double>(total_.flops));
    json["bytes"] = per_step(sum.bytes);
  }

  Json kernels() const {
    Json rows = Json::array();
    for (const KernelRow& row : by_kernel(profile_)) {
      Json& json = rows.emplace_back(Json{{"name", row.name}});
      add_sum(json, row.sum);
      json["avg_us"] = number(row.us.mean);
      json["median_us"] = number(row.us.median);
      json["min_us"] = number(row.us.min);
      json["max_us"] = number(row.us.max);
      json["std_us"] = number(row.us.std);
    }
    return rows;
  }

  Json classes() const {
    Json rows = Json::array();
    for (const ClassRow& row : by_class(profile_)) {
      add_sum(rows.emplace_back(Json{{"phase", name(row.phase)}, {"class", name(row.kernel_class)}}), row.sum);
    }
    return rows;
  }

  Json class_totals() const {
    std::map<KernelClass, KernelSum> sums;
    for (const KernelRecord& kernel : profile_.kernels) sums[kernel.kernel_class].add(kernel);
    Json rows = Json::array();
    for (const auto& [kernel_class, sum] : sums) add_sum(rows.emplace_back(Json{{"class", name(kernel_class)}}), sum);
    if (profile_.selection) return rows;
    const auto idle_ns = static_cast<double>(idle_time(profile_).idle_ns());
    rows.push_back({{"class", "idle"},
                    {"calls", nullptr},
                    {"time_ms", ms(idle_ns)},
                    {"share_of_kernel_time", nullptr},
                    {"share_of_wall_time", share(idle_ns, wall_ns_)},
                    {"flops", nullptr},
                    {"share_of_flops", nullptr},
                    {"bytes", nullptr}});
    return rows;
  }

  Json scopes() const {
    Json rows = Json::array();
    for (const ScopeRow& row : by_scope(profile_, detail_.depth, detail_.layers)) {
      Json& json = rows.emplace_back(Json{{"path", row.path}, {"level", row.level}, {"is_op", row.is_op}});
      add_sum(json, row.sum);
      for (const ProfilePhase phase : kProfilePhases) {
        const KernelSum& sum = row.by_phase[static_cast<std::size_t>(phase)];
        json[fmt::format("{}_ms", name(phase))] = ms(static_cast<double>(sum.time_ns));
      }
    }
    return rows;
  }

  Json launches() const {
    Json rows = Json::array();
    for (const KernelRecord& kernel : profile_.kernels) {
      if (kernel.step != 0) continue;
      rows.push_back({{"name", kernel.name},
                      {"node", kernel.node == UINT32_MAX ? Json(nullptr) : Json(kernel.node)},
                      {"op", kernel.op},
                      {"phase", name(kernel.phase)},
                      {"class", name(kernel.kernel_class)},
                      {"scope", kernel.scope},
                      {"start_us", static_cast<double>(kernel.start_ns) / 1e3},
                      {"duration_us", static_cast<double>(kernel.duration_ns) / 1e3},
                      {"call_start_us", static_cast<double>(kernel.call_start_ns) / 1e3},
                      {"call_duration_us", static_cast<double>(kernel.call_duration_ns) / 1e3},
                      {"stream", kernel.stream},
                      {"grid", fmt::format("{}x{}x{}", kernel.grid[0], kernel.grid[1], kernel.grid[2])},
                      {"block", fmt::format("{}x{}x{}", kernel.block[0], kernel.block[1], kernel.block[2])},
                      {"registers", kernel.registers},
                      {"shared_bytes", kernel.shared_bytes},
                      {"flops", kernel.flops},
                      {"bytes", kernel.bytes}});
    }
    return rows;
  }

  Json attention() const {
    Json rows = Json::array();
    for (const AttentionRow& row : attention_parts(profile_)) {
      add_sum(rows.emplace_back(Json{{"phase", name(row.phase)}, {"part", row.part}}), row.sum);
    }
    return rows;
  }

  Json idle() const {
    const IdleTime found = idle_time(profile_);
    Json rows = Json::array();
    for (const IdleCause cause : kIdleCauses) {
      const auto i = static_cast<std::size_t>(cause);
      const auto& longest = found.longest[i];
      rows.push_back({{"cause", name(cause)},
                      {"time_ms", ms(static_cast<double>(found.by_cause_ns[i]))},
                      {"share_of_wall_time", share(static_cast<double>(found.by_cause_ns[i]), wall_ns_)},
                      {"gaps", per_step(found.gaps[i])},
                      {"longest_us", longest ? static_cast<double>(longest->duration_ns) / 1e3 : 0.0}});
    }
    return rows;
  }

  Json roofline(const std::vector<RooflineRow>& found, bool is_recoverable) const {
    Json rows = Json::array();
    for (const RooflineRow& row : found) {
      Json& json = rows.emplace_back(Json::object());
      if (is_recoverable) json["phase"] = name(row.phase);
      json[is_recoverable ? "what" : "class"] = row.what;
      if (is_recoverable) json["kernel"] = row.kernel;
      add_sum(json, row.sum);
      json["floor_ms"] = ms(row.floor_ns);
      json["share_of_ceiling"] = share(row.floor_ns, static_cast<double>(row.sum.time_ns));
      json["bound_by"] = bound_of(row);
      json["recoverable_ms"] = ms(row.recoverable_ns);
    }
    return rows;
  }

  Json times() const {
    const Reconciliation found = reconcile(profile_);
    return {{"kernels_ms", found.kernels_ms},     {"idle_ms", found.idle_ms},
            {"overlap_ms", found.overlap_ms},     {"profiled_ms", found.profiled_ms},
            {"timed_ms", number(found.timed_ms)}, {"difference_ms", number(found.difference_ms())},
            {"recording_ms", found.recording_ms}};
  }

  const Profile& profile_;
  const ProfileDetail& detail_;
  double steps_;
  KernelSum total_;
  double wall_ns_;
};

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? csv_field(value.get_ref<const std::string&>()) : dump(value);
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Whatever two rows of a sweep may differ in, and how they ended.
Json settings(const Record& run) {
  return {{"model", run.model.name},
          {"mode", name(run.mode)},
          {"dtype", name(run.dtype)},
          {"compile", name(run.compile)},
          {"attention", run.attention ? Json(name(*run.attention)) : Json()},
          {"attention_fallback", run.attention_fallback ? Json(name(*run.attention_fallback)) : Json(nullptr)},
          {"checkpoint", name(run.checkpoint)},
          {"batch", run.batch},
          {"context", run.context},
          {"layers", run.model.layers},
          {"d_model", run.model.d_model},
          {"d_ff", run.model.d_ff},
          {"heads", run.model.heads},
          {"vocab", run.model.vocab},
          {"device", run.device.kind},
          {"device_name", run.device.name},
          {"memory_limit_bytes", or_null(run.device.memory_limit_bytes)},
          {"threads", run.threads},
          {"seed", run.seed},
          {"weights", run.training_step ? or_null(run.training_step->weights) : Json(nullptr)},
          {"warmup", run.warmup},
          {"timed_steps", run.steps},
          {"status", name(run.status)},
          {"message", run.error.message}};
}

// A profile of one kernel of no name: what its rows have as keys, every profile's have.
Profile specimen() {
  Profile profile;
  profile.steps.push_back({0, 1});
  profile.kernels.emplace_back();
  profile.kernels.back().op = "specimen";
  return profile;
}

enum class LineOf : std::uint8_t { keys, values, settings_alone };

std::string csv_line(const Json& run, const Json& row, LineOf what) {
  std::string line;
  for (const Json* part : {&run, &row}) {
    const bool is_blank = what == LineOf::settings_alone && part == &row;
    for (const auto& [key, value] : part->items()) {
      line += (is_blank ? "" : what == LineOf::keys ? key : csv_cell(value)) + ',';
    }
  }
  line.back() = '\n';
  return line;
}

}  // namespace

std::string_view name(Breakdown breakdown) { return kBreakdownNames[breakdown]; }
Breakdown breakdown_from_name(std::string_view text) { return kBreakdownNames.parse(text, "'{}' is unknown"); }

std::string to_json(const Profile& profile, const ProfileDetail& detail) {
  Json json = Json::parse(to_json(profile.run));
  json["profile"] = Writer(profile, detail).document();
  return dump(json);
}

std::string csv_heading(Breakdown breakdown) {
  const Profile profile = specimen();
  return csv_line(settings(profile.run), Writer(profile, {}).rows(breakdown).at(0), LineOf::keys);
}

std::string csv_rows(const Profile& profile, Breakdown breakdown, const ProfileDetail& detail) {
  Json run = settings(profile.run);
  if (profile.run.status == RunStatus::ok) run["message"] = profile.problem;
  std::string text;
  const Json rows = profile.has_kernels() ? Writer(profile, detail).rows(breakdown) : Json::array();
  for (const Json& row : rows) text += csv_line(run, row, LineOf::values);
  if (!text.empty()) return text;
  const Profile blank = specimen();
  return csv_line(run, Writer(blank, detail).rows(breakdown).at(0), LineOf::settings_alone);
}

}  // namespace ridgepoint
