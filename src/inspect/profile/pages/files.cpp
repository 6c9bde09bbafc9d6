#include "inspect/profile/pages/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/text/json.h"
#include "core/types/enum_names.h"
#include "inspect/profile/communication.h"
#include "inspect/profile/pages/figures.h"
#include "inspect/profile/views.h"
#include "record/columns.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

constexpr auto kBreakdownNames = enum_names<Breakdown>("kernel", "class", "scope", "launch");

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

template <typename Enum>
std::string text_of(Enum value) {
  return std::string(name(value));
}

using Keys = std::initializer_list<const char*>;

void append(Cells& cells, Cells more) { std::ranges::move(more, std::back_inserter(cells)); }

// Divides sums over all profiled steps by their number.
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
      case Breakdown::kernel: return kernels();
      case Breakdown::op_class: return classes();
      case Breakdown::scope: return scopes();
      case Breakdown::launch: return launches();
      case Breakdown::class_total: return class_totals();
    }
    return {};
  }

  Json document() const {
    Json json = {{"problem", text_or_null(profile_.problem)},
                 {"captured", profile_.captured},
                 {"capture_note", text_or_null(profile_.capture_note)},
                 {"steps", profile_.steps.size()},
                 {"dropped_records", profile_.dropped_records},
                 {"silent_launches", profile_.silent_launches},
                 {"matmul_flops_per_second", or_null(profile_.matmul_flops_per_second)},
                 {"copy_bytes_per_second", or_null(profile_.copy_bytes_per_second)}};
    if (const auto& selection = profile_.selection) {
      json["selection"] = {{"by", selection->by},
                           {"all_calls", to_json(per_step(selection->all_calls))},
                           {"all_time_ms", ms(selection->all_time_ns)}};
    }
    if (!profile_.has_kernels()) return json;
    // With a selection, the gaps between kernels contain other kernels.
    const bool has_all = !profile_.selection;
    json["verdict"] = verdict(ProfileFigures(profile_));
    json["time"] = has_all ? to_json(times())[0] : Json(nullptr);
    json["kernels"] = to_json(kernels());
    json["classes"] = to_json(classes());
    json["scopes"] = to_json(scopes());
    json["attention"] = to_json(attention());
    json["idle"] = has_all ? to_json(idle()) : Json::array();
    json["communication"] = has_all ? communication_json() : Json(nullptr);
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

  Cells sum_cells(const KernelSum& sum) const {
    const auto time_ns = static_cast<double>(sum.time_ns);
    return {per_step(sum.calls),
            ms(time_ns),
            share(time_ns, static_cast<double>(total_.time_ns)),
            share(time_ns, wall_ns_),
            per_step(sum.flops),
            share(static_cast<double>(sum.flops), static_cast<double>(total_.flops)),
            per_step(sum.bytes)};
  }

  // A row for each of `found`: its identity, the sum of its kernels, and more cells.
  template <typename Found, typename Identity, typename Rest>
  Table summed(const std::vector<Found>& found, Keys keys, Identity identity, Keys more_keys, Rest rest) const {
    Table table = with_columns(keys);
    append_columns(table, Keys{"calls", "time_ms", "share_of_kernel_time", "share_of_wall_time", "flops",
                               "share_of_flops", "bytes"});
    append_columns(table, more_keys);
    for (const Found& row : found) {
      Cells cells = identity(row);
      append(cells, sum_cells(row.sum));
      append(cells, rest(row));
      table.add(std::move(cells));
    }
    return table;
  }
  template <typename Found, typename Identity>
  Table summed(const std::vector<Found>& found, Keys keys, Identity identity) const {
    return summed(found, keys, identity, {}, [](const Found&) { return Cells(); });
  }

  Table kernels() const {
    return summed(
        by_kernel(profile_), {"name"}, [](const KernelRow& row) { return Cells{row.name}; },
        {"avg_us", "median_us", "min_us", "max_us", "std_us"},
        [](const KernelRow& row) {
          return Cells{row.us.mean, row.us.median, row.us.min, row.us.max, row.us.std};
        });
  }

  Table classes() const {
    return summed(by_class(profile_), {"phase", "class"}, [](const ClassRow& row) {
      return Cells{text_of(row.phase), text_of(row.kernel_class)};
    });
  }

  Table class_totals() const {
    std::map<KernelClass, KernelSum> sums;
    for (const KernelRecord& kernel : profile_.kernels) sums[kernel.kernel_class].add(kernel);
    std::vector<ClassRow> rows;
    for (const auto& [kernel_class, sum] : sums) rows.push_back({ProfilePhase::forward, kernel_class, sum});
    Table table = summed(rows, {"class"}, [](const ClassRow& row) { return Cells{text_of(row.kernel_class)}; });
    if (profile_.selection) return table;
    const auto idle_ns = static_cast<double>(idle_time(profile_).idle_ns());
    table.add({"idle", {}, ms(idle_ns), {}, share(idle_ns, wall_ns_), {}, {}, {}});
    return table;
  }

  Table scopes() const {
    static_assert(kProfilePhases.size() == 6, "a column for each phase");
    return summed(
        by_scope(profile_, detail_.depth, detail_.layers), {"path", "level", "is_op"},
        [](const ScopeRow& row) {
          return Cells{row.path, row.level, row.is_op};
        },
        {"forward_ms", "loss_ms", "recompute_ms", "backward_ms", "zeroing_ms", "optimizer_ms"},
        [this](const ScopeRow& row) {
          Cells cells;
          for (const KernelSum& sum : row.by_phase) cells.emplace_back(ms(sum.time_ns));
          return cells;
        });
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
    return summed(attention_parts(profile_), {"phase", "part"}, [](const AttentionRow& row) {
      return Cells{text_of(row.phase), row.part};
    });
  }

  Table idle() const {
    Table table = with_columns({"cause", "time_ms", "share_of_wall_time", "gaps", "longest_us"});
    const IdleTime found = idle_time(profile_);
    for (const IdleCause cause : found.shown_causes()) {
      const auto i = static_cast<std::size_t>(cause);
      const auto& longest = found.longest[i];
      table.add({text_of(cause), ms(found.by_cause_ns[i]), share(static_cast<double>(found.by_cause_ns[i]), wall_ns_),
                 per_step(found.gaps[i]), longest ? static_cast<double>(longest->duration_ns) / 1e3 : 0.0});
    }
    return table;
  }

  Json communication_json() const {
    const Communication found = communication(profile_);
    if (found.collectives.empty()) return nullptr;
    return {
        {"time_ms", ms(found.time_ns)},
        {"exposed_ms", ms(found.exposed_ns)},
        {"hidden", found.hidden()},
        {"collectives", json_list(exposed_collectives(profile_),
                                  [&](const ExposedRow& row) -> Json {
                                    return {{"name", row.what},
                                            {"calls", to_json(per_step(row.calls))},
                                            {"time_ms", ms(row.time_ns)},
                                            {"exposed_ms", ms(row.exposed_ns)},
                                            {"waiting", text_or_null(row.waiting)}};
                                  })},
        {"ranks", json_list(profile_.ranks, [&](const RankCommunication& rank) -> Json {
           return {{"time_ms", ms(rank.time_ns)}, {"exposed_ms", ms(rank.exposed_ns)}, {"late_ms", ms(rank.late_ns)}};
         })}};
  }

  Table roofline() const {
    return roofline_rows(roofline_by_class(profile_), {"class"},
                         [](const RooflineRow& row) { return Cells{row.what}; });
  }

  Table recoverable() const {
    return roofline_rows(recoverable_time(profile_), {"phase", "what", "kernel"}, [](const RooflineRow& row) {
      return Cells{text_of(row.phase), row.what, row.kernel};
    });
  }

  template <typename Identity>
  Table roofline_rows(const std::vector<RooflineRow>& rows, Keys keys, Identity identity) const {
    return summed(rows, keys, identity, {"floor_ms", "share_of_ceiling", "bound_by", "recoverable_ms"},
                  [this](const RooflineRow& row) {
                    return Cells{ms(row.floor_ns), share(row.floor_ns, static_cast<double>(row.sum.time_ns)),
                                 std::string(bound_of(row)), ms(row.recoverable_ns)};
                  });
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

// The name of a setting's column: its path, without the object of a model. Some columns are older than the paths.
std::string column_of(std::string_view path) {
  constexpr std::pair<std::string_view, std::string_view> kOlder[] = {
      {"model.name", "model"},
      {"device.kind", "device"},
      {"device.name", "device_name"},
      {"device.memory_limit_bytes", "memory_limit_bytes"},
      {"steps", "timed_steps"}};
  for (const auto& [older, column] : kOlder)
    if (path == older) return std::string(column);
  constexpr std::string_view kModel = "model.";
  return std::string(path.substr(path.starts_with(kModel) ? kModel.size() : 0));
}

// All settings of the run, and what came of it.
std::vector<std::pair<std::string, Cell>> settings_of(const Profile& profile) {
  const Record& run = profile.run;
  std::vector<std::pair<std::string, Cell>> cells;
  for (const Setting& setting : record_settings())
    if (!setting.path.empty()) cells.emplace_back(column_of(setting.path), text_cell(setting.value(run)));
  cells.emplace_back("attention_fallback", run.attention_fallback ? Cell(text_of(*run.attention_fallback)) : Cell());
  cells.emplace_back("checkpoint_blocks", optional_cell(run.checkpoint_blocks));
  cells.emplace_back("status", text_of(run.status));
  cells.emplace_back("message", run.status == RunStatus::ok ? profile.problem : run.error.message);
  return cells;
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

Breakdown breakdown_from_name(std::string_view text) { return kBreakdownNames.parse(text, "'{}' is unknown"); }

Page profile_files(std::span<const Profile> profiles, Breakdown breakdown, const ProfileDetail& detail, Format format) {
  Page page;
  for (const Profile& profile : profiles) {
    if (format == Format::csv) {
      page.tables.push_back(breakdown_of(profile, breakdown, detail));
      continue;
    }
    Json json = parse_json(to_json(profile.run));
    json["profile"] = Figures(profile, detail).document();
    page.documents.push_back(dump_json(json));
  }
  return page;
}

}  // namespace ridgepoint::tables
