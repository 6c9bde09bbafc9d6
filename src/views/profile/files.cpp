#include "views/profile/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/enum_names.h"
#include "core/json.h"
#include "measure/profile/views.h"
#include "views/table/render.h"

namespace ridgepoint::views {
namespace {

constexpr auto kBreakdownNames = enum_names<Breakdown>("kernel", "class", "scope", "launch");

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

template <typename Enum>
std::string text_of(Enum value) {
  return std::string(name(value));
}

template <typename T>
Cell or_nothing(const std::optional<T>& value) {
  return value ? Cell(*value) : Cell();
}

Table with_columns(std::initializer_list<const char*> keys) {
  Table table;
  for (const char* key : keys) table.columns.push_back({key, key});
  return table;
}

void append(Table& table, std::initializer_list<const char*> keys) {
  for (const char* key : keys) table.columns.push_back({key, key});
}

void append(Cells& cells, Cells more) { std::ranges::move(more, std::back_inserter(cells)); }

// Turns sums over all profiled steps into figures of one.
class Figures {
 public:
  Figures(const Profile& profile, const ProfileDetail& detail)
      : profile_(profile),
        detail_(detail),
        steps_(static_cast<double>(std::max<std::size_t>(profile.steps.size(), 1))),
        total_(total(profile)),
        wall_ns_(static_cast<double>(wall_ns(profile))) {}

  Table rows(Breakdown breakdown) const {
    switch (breakdown) {
      case Breakdown::kernel:
        return kernels();
      case Breakdown::op_class:
        return classes();
      case Breakdown::scope:
        return scopes();
      case Breakdown::launch:
        return launches();
      case Breakdown::class_total:
        return class_totals();
    }
    return {};
  }

  Json document() const {
    Json json = {{"problem", profile_.problem.empty() ? Json(nullptr) : Json(profile_.problem)},
                 {"steps", profile_.steps.size()},
                 {"dropped_records", profile_.dropped_records},
                 {"silent_launches", profile_.silent_launches},
                 {"matmul_flops_per_second", to_json(or_nothing(profile_.matmul_flops_per_second))},
                 {"copy_bytes_per_second", to_json(or_nothing(profile_.copy_bytes_per_second))}};
    if (const auto& selection = profile_.selection) {
      json["selection"] = {{"by", selection->by},
                           {"all_calls", to_json(per_step(selection->all_calls))},
                           {"all_time_ms", ms(selection->all_time_ns)}};
    }
    if (!profile_.has_kernels()) return json;
    // Of some kernels there are no gaps between kernels.
    const bool has_all = !profile_.selection;
    json["time"] = has_all ? to_json(times())[0] : Json(nullptr);
    json["kernels"] = to_json(kernels());
    json["classes"] = to_json(classes());
    json["scopes"] = to_json(scopes());
    json["attention"] = to_json(attention());
    json["idle"] = has_all ? to_json(idle()) : Json::array();
    json["roofline"] = to_json(roofline());
    json["recoverable"] = to_json(recoverable());
    if (detail_.launches) json["launches"] = to_json(launches());
    return json;
  }

 private:
  double ms(double ns) const { return ns / 1e6 / steps_; }
  double ms(std::int64_t ns) const { return ms(static_cast<double>(ns)); }
  Cell per_step(std::int64_t count) const {
    const auto steps = static_cast<std::int64_t>(steps_);
    return count % steps == 0 ? Cell(count / steps) : Cell(static_cast<double>(count) / steps_);
  }

  static void append_sum_columns(Table& table) {
    append(table,
           {"calls", "time_ms", "share_of_kernel_time", "share_of_wall_time", "flops", "share_of_flops", "bytes"});
  }
  void append_sum(Cells& cells, const KernelSum& sum) const {
    const auto time_ns = static_cast<double>(sum.time_ns);
    append(cells, {per_step(sum.calls), ms(time_ns), share(time_ns, static_cast<double>(total_.time_ns)),
                   share(time_ns, wall_ns_), per_step(sum.flops),
                   share(static_cast<double>(sum.flops), static_cast<double>(total_.flops)), per_step(sum.bytes)});
  }

  Table kernels() const {
    Table table = with_columns({"name"});
    append_sum_columns(table);
    append(table, {"avg_us", "median_us", "min_us", "max_us", "std_us"});
    for (const KernelRow& row : by_kernel(profile_)) {
      Cells cells = {row.name};
      append_sum(cells, row.sum);
      append(cells, {row.us.mean, row.us.median, row.us.min, row.us.max, row.us.std});
      table.add(std::move(cells));
    }
    return table;
  }

  Table classes() const {
    Table table = with_columns({"phase", "class"});
    append_sum_columns(table);
    for (const ClassRow& row : by_class(profile_)) {
      Cells cells = {text_of(row.phase), text_of(row.kernel_class)};
      append_sum(cells, row.sum);
      table.add(std::move(cells));
    }
    return table;
  }

  Table class_totals() const {
    Table table = with_columns({"class"});
    append_sum_columns(table);
    std::map<KernelClass, KernelSum> sums;
    for (const KernelRecord& kernel : profile_.kernels) sums[kernel.kernel_class].add(kernel);
    for (const auto& [kernel_class, sum] : sums) {
      Cells cells = {text_of(kernel_class)};
      append_sum(cells, sum);
      table.add(std::move(cells));
    }
    if (profile_.selection || !profile_.has_kernels()) return table;
    const auto idle_ns = static_cast<double>(idle_time(profile_).idle_ns());
    table.add({"idle", {}, ms(idle_ns), {}, share(idle_ns, wall_ns_), {}, {}, {}});
    return table;
  }

  Table scopes() const {
    Table table = with_columns({"path", "level", "is_op"});
    append_sum_columns(table);
    for (const ProfilePhase phase : kProfilePhases) append(table, {(text_of(phase) + "_ms").c_str()});
    for (const ScopeRow& row : by_scope(profile_, detail_.depth, detail_.layers)) {
      Cells cells = {row.path, row.level, row.is_op};
      append_sum(cells, row.sum);
      for (const KernelSum& sum : row.by_phase) cells.emplace_back(ms(sum.time_ns));
      table.add(std::move(cells));
    }
    return table;
  }

  Table launches() const {
    Table table =
        with_columns({"name", "node", "op", "phase", "class", "scope", "start_us", "duration_us", "call_start_us",
                      "call_duration_us", "stream", "grid", "block", "registers", "shared_bytes", "flops", "bytes"});
    const auto us = [](std::int64_t ns) { return static_cast<double>(ns) / 1e3; };
    const auto extent = [](const auto& of) { return fmt::format("{}x{}x{}", of[0], of[1], of[2]); };
    for (const KernelRecord& k : profile_.kernels) {
      if (k.step != 0) continue;
      table.add({k.name, k.node == UINT32_MAX ? Cell() : Cell(k.node), k.op, text_of(k.phase), text_of(k.kernel_class),
                 k.scope, us(k.start_ns), us(k.duration_ns), us(k.call_start_ns), us(k.call_duration_ns), k.stream,
                 extent(k.grid), extent(k.block), k.registers, k.shared_bytes, k.flops, k.bytes});
    }
    return table;
  }

  Table attention() const {
    Table table = with_columns({"phase", "part"});
    append_sum_columns(table);
    for (const AttentionRow& row : attention_parts(profile_)) {
      Cells cells = {text_of(row.phase), row.part};
      append_sum(cells, row.sum);
      table.add(std::move(cells));
    }
    return table;
  }

  Table idle() const {
    Table table = with_columns({"cause", "time_ms", "share_of_wall_time", "gaps", "longest_us"});
    const IdleTime found = idle_time(profile_);
    for (const IdleCause cause : kIdleCauses) {
      const auto i = static_cast<std::size_t>(cause);
      const auto& longest = found.longest[i];
      table.add({text_of(cause), ms(found.by_cause_ns[i]), share(static_cast<double>(found.by_cause_ns[i]), wall_ns_),
                 per_step(found.gaps[i]), longest ? static_cast<double>(longest->duration_ns) / 1e3 : 0.0});
    }
    return table;
  }

  Table roofline() const {
    Table table = with_columns({"class"});
    append_roofline(table, roofline_by_class(profile_), [](const RooflineRow& row) { return Cells{row.what}; });
    return table;
  }

  Table recoverable() const {
    Table table = with_columns({"phase", "what", "kernel"});
    append_roofline(table, recoverable_time(profile_), [](const RooflineRow& row) {
      return Cells{text_of(row.phase), row.what, row.kernel};
    });
    return table;
  }

  template <typename Begin>
  void append_roofline(Table& table, const std::vector<RooflineRow>& rows, Begin begin) const {
    append_sum_columns(table);
    append(table, {"floor_ms", "share_of_ceiling", "bound_by", "recoverable_ms"});
    for (const RooflineRow& row : rows) {
      Cells cells = begin(row);
      append_sum(cells, row.sum);
      append(cells, {ms(row.floor_ns), share(row.floor_ns, static_cast<double>(row.sum.time_ns)),
                     std::string(bound_of(row)), ms(row.recoverable_ns)});
      table.add(std::move(cells));
    }
  }

  Table times() const {
    Table table = with_columns(
        {"kernels_ms", "idle_ms", "overlap_ms", "profiled_ms", "timed_ms", "difference_ms", "recording_ms"});
    const Reconciliation found = reconcile(profile_);
    table.add({found.kernels_ms, found.idle_ms, found.overlap_ms, found.profiled_ms, found.timed_ms,
               found.difference_ms(), found.recording_ms});
    return table;
  }

  const Profile& profile_;
  const ProfileDetail& detail_;
  double steps_;
  KernelSum total_;
  double wall_ns_;
};

// Whatever two rows of a sweep may differ in, and how they ended.
std::vector<std::pair<const char*, Cell>> settings_of(const Profile& profile) {
  const Record& run = profile.run;
  const WorkloadDescription::Model& model = run.model;
  return {{"model", model.name},
          {"mode", text_of(run.mode)},
          {"dtype", text_of(run.dtype)},
          {"compile", text_of(run.compile)},
          {"attention", run.attention ? Cell(text_of(*run.attention)) : Cell()},
          {"attention_fallback", run.attention_fallback ? Cell(text_of(*run.attention_fallback)) : Cell()},
          {"checkpoint", text_of(run.checkpoint)},
          {"batch", run.batch},
          {"context", run.context},
          {"layers", model.layers},
          {"d_model", model.d_model},
          {"d_ff", model.d_ff},
          {"heads", model.heads},
          {"vocab", model.vocab},
          {"device", run.device.kind},
          {"device_name", run.device.name},
          {"memory_limit_bytes", or_nothing(run.device.memory_limit_bytes)},
          {"threads", run.threads},
          {"seed", run.seed},
          {"weights", run.training_step ? or_nothing(run.training_step->weights) : Cell()},
          {"warmup", run.warmup},
          {"timed_steps", run.steps},
          {"status", text_of(run.status)},
          {"message", run.status == RunStatus::ok ? profile.problem : run.error.message}};
}

Table breakdown_of(const Profile& profile, Breakdown breakdown, const ProfileDetail& detail) {
  Table rows = Figures(profile, detail).rows(breakdown);
  if (!profile.has_kernels()) rows.rows.clear();
  if (rows.rows.empty()) rows.add(Cells(rows.columns.size()));
  Table table;
  Cells settings;
  for (const auto& [key, cell] : settings_of(profile)) {
    table.columns.push_back({key, key});
    settings.push_back(cell);
  }
  std::ranges::move(rows.columns, std::back_inserter(table.columns));
  for (Row& row : rows.rows) {
    Cells cells = settings;
    append(cells, std::move(row.cells));
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace

std::string_view name(Breakdown breakdown) { return kBreakdownNames[breakdown]; }
Breakdown breakdown_from_name(std::string_view text) { return kBreakdownNames.parse(text, "'{}' is unknown"); }

Page profile_files(std::span<const Profile> profiles, Breakdown breakdown, const ProfileDetail& detail, Format format) {
  Page page;
  for (const Profile& profile : profiles) {
    if (format == Format::csv) {
      page.tables.push_back(breakdown_of(profile, breakdown, detail));
      continue;
    }
    Json json = Json::parse(to_json(profile.run));
    json["profile"] = Figures(profile, detail).document();
    page.documents.push_back(dump_json(json));
  }
  return page;
}

}  // namespace ridgepoint::views
