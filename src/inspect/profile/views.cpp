#include "inspect/profile/views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>
#include <utility>

#include "core/types/enum_names.h"
#include "runtime/device/activity.h"

namespace ridgepoint {
namespace {

constexpr double kNsPerMs = 1e6;

bool is_longer(const KernelSum& a, const KernelSum& b) { return a.time_ns > b.time_ns; }

// The part of attention that the kernel computes; empty if it is not part of attention.
std::string attention_part(const KernelRecord& kernel) {
  const std::size_t dot = kernel.scope.rfind('.');
  if (dot == std::string::npos || !kernel.scope.substr(0, dot).ends_with(".attn")) return "";
  const std::string module = kernel.scope.substr(dot + 1);
  const bool is_matmul = kernel.kernel_class == KernelClass::matmul;
  if (module == "scores") return is_matmul ? "scores matmul" : "scale";
  if (module == "values") return is_matmul ? "values matmul" : "values, rest";
  return module == "mask" || module == "softmax" ? module : "";
}

struct TreeNode {
  ScopeRow row;
  std::vector<TreeNode*> children;
};

class ScopeTree {
 public:
  ScopeTree(const DeviceTimeline& timeline, int depth, Layers layers)
      : timeline_(timeline), depth_(depth), layers_(layers) {}

  void add(std::size_t index) {
    const DeviceEvent& event = timeline_.events[index];
    const KernelSum sum = sum_of(timeline_, index);
    for (TreeNode* node : path_of(event)) {
      node->row.sum.add(sum);
      node->row.by_phase[static_cast<std::size_t>(event.phase)].add(sum);
    }
  }

  std::vector<ScopeRow> rows() const {
    std::vector<ScopeRow> result;
    collect(root_, result);
    return result;
  }

 private:
  // Modules from the outermost, then the op. Found once for each place, of which a trace of millions of events has few.
  const std::vector<TreeNode*>& path_of(const DeviceEvent& event) {
    const KernelPlace& place = timeline_.place_of(event);
    const std::uint64_t key = event.place + (place.op.empty() ? std::uint64_t{event.name + 1} << 32U : 0);
    const auto [found, is_new] = paths_.try_emplace(key);
    std::vector<TreeNode*>& path = found->second;
    if (!is_new) return path;
    TreeNode* at = &root_;
    for (const std::string& level : scope_levels(place.scope, layers_)) {
      if (at->row.level == depth_ + 1) return path;
      path.push_back(at = child(*at, level, false));
    }
    if (at->row.level <= depth_)
      path.push_back(child(*at, place.op.empty() ? timeline_.name_of(event) : place.op, true));
    return path;
  }

  TreeNode* child(TreeNode& parent, const std::string& name, bool is_op) {
    for (TreeNode* node : parent.children) {
      if (node->row.name == name && node->row.is_op == is_op) return node;
    }
    TreeNode& node = nodes_.emplace_back();
    node.row.name = name;
    node.row.path = parent.row.path.empty() ? name : parent.row.path + "." + name;
    node.row.level = parent.row.level + 1;
    node.row.is_op = is_op;
    parent.children.push_back(&node);
    return &node;
  }

  // The root has level 1 and is not a row, so the levels of rows decrease by one.
  static void collect(const TreeNode& parent, std::vector<ScopeRow>& result) {
    for (const TreeNode* node : parent.children) {
      result.push_back(node->row);
      --result.back().level;
      collect(*node, result);
    }
  }

  const DeviceTimeline& timeline_;
  int depth_;
  Layers layers_;
  TreeNode root_;
  std::deque<TreeNode> nodes_;
  std::map<std::uint64_t, std::vector<TreeNode*>> paths_;  // by place, and by name where the place has no op
};

constexpr auto kPhaseNames =
    enum_names<ProfilePhase>("forward", "loss", "recompute", "backward", "zeroing", "optimizer");

// The last component of a scope: softmax of layers.0.attn.softmax.
std::string_view module_of(std::string_view scope) {
  const std::size_t dot = scope.rfind('.');
  return dot == std::string_view::npos ? scope : scope.substr(dot + 1);
}

constexpr auto kCauseNames = enum_names<IdleCause>("host late", "dependency", "nothing to do", "synchronisation",
                                                   "copies", "data loading", "allocator", "launch unknown");

// Walks the kernels of one step in order of start.
class StepWalk {
 public:
  StepWalk(IdleTime& idle, const ProfiledStep& step) : idle_(idle), busy_(step.begin_ns, step.end_ns) {
    idle_.wall_ns += step.end_ns - step.begin_ns;
  }

  void visit(const DeviceEvent& event, std::size_t index) {
    const bool late = event.call_start_ns > busy_.until_ns();
    const BusyTime::Added added = busy_.add(event.start_ns, event.duration_ns);
    if (added.gap_ns > 0) gap({late ? event.late_because : IdleCause::dependency, added.gap_ns, index});
    idle_.overlap_ns += event.duration_ns - added.busy_ns;
  }

  void finish() {
    idle_.busy_ns += busy_.busy_ns();
    if (busy_.rest_ns() > 0) gap({IdleCause::nothing_to_do, busy_.rest_ns(), std::nullopt});
  }

 private:
  void gap(const IdleGap& found) {
    const auto cause = static_cast<std::size_t>(found.cause);
    idle_.by_cause_ns[cause] += found.duration_ns;
    ++idle_.gaps[cause];
    std::optional<IdleGap>& longest = idle_.longest[cause];
    if (!longest || longest->duration_ns < found.duration_ns) longest = found;
  }

  IdleTime& idle_;
  BusyTime busy_;
};

// Dots become slashes, because fnmatch() treats slashes as separators.
std::string as_path(std::string_view dotted) {
  std::string path(dotted);
  std::ranges::replace(path, '.', '/');
  return path;
}

// "phase forward, module layers.*.attn".
std::string describe(const KernelFilter& filter) {
  std::string text;
  if (!filter.phases.empty()) text = fmt::format("phase {}", fmt::join(names_of(filter.phases), " or "));
  if (filter.scopes.empty()) return text;
  return fmt::format("{}{}module {}", text, text.empty() ? "" : ", ", fmt::join(filter.scopes, " or "));
}

constexpr double kNsPerSecond = 1e9;

bool has_ceilings(const Profile& profile) {
  return profile.matmul_flops_per_second.value_or(0) > 0 && profile.copy_bytes_per_second.value_or(0) > 0;
}

// "layers.*.ffn.w1 matmul": layers added up.
std::string place_of(const KernelRecord& kernel) {
  const std::string text = with_layers_added_up(kernel.scope);
  const std::string& op = kernel.op.empty() ? kernel.name : kernel.op;
  return text.empty() ? op : text + " " + op;
}

// One group for each op, module and phase; sums over layers and steps.
std::vector<RooflineGroup> places(const Profile& profile) {
  const RooflineRates ceilings{*profile.matmul_flops_per_second, *profile.copy_bytes_per_second};
  std::map<std::tuple<std::string, ProfilePhase, KernelClass>, RooflineGroup> groups;
  for (const KernelRecord& kernel : profile.kernels) {
    if (kernel.kernel_class == KernelClass::communication) continue;  // neither rate bounds it
    groups[{place_of(kernel), kernel.phase, kernel.kernel_class}].add(
        {1, kernel.duration_ns, kernel.flops, kernel.bytes}, kernel.name, ceilings);
  }
  std::vector<RooflineGroup> result;
  for (auto& [key, group] : groups) {
    std::tie(group.row.what, group.row.phase, group.kernel_class) = key;
    group.finish();
    result.push_back(std::move(group));
  }
  return result;
}

}  // namespace

DeviceTimeline timeline_of(const Profile& profile) {
  DeviceTimeline timeline;
  std::map<std::string_view, std::uint32_t> names;
  std::map<std::pair<std::string_view, std::string_view>, std::uint32_t> places;
  const auto number = [](auto& numbers, const auto& key, const auto& add) {
    const auto [found, is_new] = numbers.try_emplace(key, static_cast<std::uint32_t>(numbers.size()));
    if (is_new) add();
    return found->second;
  };
  for (const KernelRecord& kernel : profile.kernels) {
    timeline.work.push_back({kernel.flops, kernel.bytes});
    timeline.events.push_back({
        .start_ns = kernel.start_ns,
        .duration_ns = kernel.duration_ns,
        .call_start_ns = kernel.call_start_ns,
        .name = number(names, std::string_view(kernel.name), [&] { timeline.names.push_back(kernel.name); }),
        .place = number(places, std::pair<std::string_view, std::string_view>(kernel.op, kernel.scope),
                        [&] {
                          timeline.places.push_back({kernel.op, kernel.scope});
                        }),
        .step = kernel.step,
        .group = kernel.node,
        .stream = static_cast<std::uint16_t>(kernel.stream),
        .kind = kernel.kind,
        .kernel_class = kernel.kernel_class,
        .phase = kernel.phase,
    });
  }
  timeline.steps = profile.steps;
  return timeline;
}

KernelSum total(const DeviceTimeline& timeline) {
  KernelSum sum;
  for (std::size_t i = 0; i < timeline.events.size(); ++i) sum.add(sum_of(timeline, i));
  for (const KernelRow& row : timeline.sums) sum.add(row.sum);
  return sum;
}

std::int64_t wall_ns(const DeviceTimeline& timeline) {
  std::int64_t sum = 0;
  for (const ProfiledStep& step : timeline.steps) sum += step.end_ns - step.begin_ns;
  return sum;
}

std::vector<KernelRow> by_kernel(const DeviceTimeline& timeline) {
  struct Calls {
    KernelSum sum;
    std::vector<double> us;
    KernelClass kernel_class = KernelClass::unknown;
  };
  std::vector<Calls> rows(timeline.names.size());
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    Calls& calls = rows[timeline.events[i].name];
    if (calls.us.empty()) calls.kernel_class = timeline.events[i].kernel_class;
    calls.sum.add(sum_of(timeline, i));
    calls.us.push_back(static_cast<double>(timeline.events[i].duration_ns) / 1e3);
  }
  std::vector<KernelRow> result = timeline.sums;
  for (std::size_t name = 0; name < rows.size(); ++name) {
    auto& [sum, us, kernel_class] = rows[name];
    if (sum.calls == 0) continue;
    result.push_back({timeline.names[name], sum, describe(std::move(us)), kernel_class});
    result.back().us.samples = {};
  }
  std::ranges::sort(result, [](const KernelRow& a, const KernelRow& b) {
    return a.sum.time_ns != b.sum.time_ns ? is_longer(a.sum, b.sum) : a.name < b.name;
  });
  return result;
}

std::vector<ClassRow> by_class(const DeviceTimeline& timeline) {
  std::map<std::pair<ProfilePhase, KernelClass>, KernelSum> sums;
  for (std::size_t i = 0; i < timeline.events.size(); ++i)
    sums[{timeline.events[i].phase, timeline.events[i].kernel_class}].add(sum_of(timeline, i));
  for (const KernelRow& row : timeline.sums) sums[{ProfilePhase::forward, row.kernel_class}].add(row.sum);
  std::vector<ClassRow> result;
  for (const auto& [key, sum] : sums) result.push_back({key.first, key.second, sum});
  std::ranges::stable_sort(result, [](const ClassRow& a, const ClassRow& b) {
    return a.phase != b.phase ? a.phase < b.phase : is_longer(a.sum, b.sum);
  });
  return result;
}

std::vector<AttentionRow> attention_parts(const Profile& profile) {
  std::vector<AttentionRow> rows;
  for (const KernelRecord& kernel : profile.kernels) {
    std::string part = attention_part(kernel);
    if (part.empty()) continue;
    auto row = std::ranges::find_if(
        rows, [&](const AttentionRow& other) { return other.part == part && other.phase == kernel.phase; });
    if (row == rows.end()) {
      rows.push_back({kernel.phase, std::move(part), kernel.kernel_class == KernelClass::matmul, {}});
      row = rows.end() - 1;
    }
    row->sum.add(kernel);
  }
  const bool complete = std::ranges::count(rows, true, &AttentionRow::is_matmul) >= 2 &&
                        std::ranges::find(rows, "softmax", &AttentionRow::part) != rows.end();
  if (!complete) return {};
  std::ranges::stable_sort(rows, {}, &AttentionRow::phase);
  return rows;
}

Reconciliation reconcile(const Profile& profile) {
  Reconciliation result;
  const auto steps = static_cast<double>(profile.steps.size());
  const IdleTime idle = idle_time(profile);
  result.kernels_ms = static_cast<double>(total(profile).time_ns) / kNsPerMs / steps;
  result.idle_ms = static_cast<double>(idle.idle_ns()) / kNsPerMs / steps;
  result.overlap_ms = static_cast<double>(idle.overlap_ns) / kNsPerMs / steps;
  result.profiled_ms = static_cast<double>(idle.wall_ns) / kNsPerMs / steps;
  result.timed_ms = profile.run.training_step->time_ms.mean;
  const auto spread = [](double deviation) { return std::isfinite(deviation) ? deviation : 0; };
  result.timed_std_ms = spread(profile.run.training_step->time_ms.std);
  std::vector<double> profiled_ms;
  for (const ProfiledStep& step : profile.steps) {
    profiled_ms.push_back(static_cast<double>(step.end_ns - step.begin_ns) / kNsPerMs);
  }
  result.profiled_std_ms = spread(describe(std::move(profiled_ms)).std);
  std::int64_t launches = 0;
  for (const KernelRecord& kernel : profile.kernels) launches += kernel.kind == ActivityKind::kernel ? 1 : 0;
  if (profile.captured) launches = static_cast<std::int64_t>(profile.steps.size());  // one call a step is recorded
  result.recording_ms = profile.recording_ns * static_cast<double>(launches) / kNsPerMs / steps;
  return result;
}

std::vector<ScopeRow> by_scope(const DeviceTimeline& timeline, int depth, Layers layers) {
  ScopeTree tree(timeline, depth, layers);
  for (std::size_t i = 0; i < timeline.events.size(); ++i) tree.add(i);
  return tree.rows();
}

std::string_view name(ProfilePhase phase) { return kPhaseNames[phase]; }
ProfilePhase profile_phase_from_name(std::string_view text) { return kPhaseNames.parse(text, "'{}' is unknown"); }

KernelClass kernel_class(const Graph& graph, const Node& node) {
  const KernelClass by_op = traits(node.op).kernel_class;
  if (by_op != KernelClass::elementwise) return by_op;
  if (node.phase == Phase::optimizer) return KernelClass::optimizer;
  const std::string_view module = module_of(graph.scope_name(node));
  if (module == "softmax") return KernelClass::softmax;
  const KernelClass by_origin = node.origin ? traits(*node.origin).kernel_class : KernelClass::elementwise;
  const bool is_whole = by_origin == KernelClass::attention;  // only for one kernel that does all of attention
  if (by_origin != KernelClass::elementwise && !is_whole) return by_origin;
  return module == "loss" || node.phase == Phase::loss ? KernelClass::loss : KernelClass::elementwise;
}

std::string_view name(IdleCause cause) { return kCauseNames[cause]; }

std::vector<IdleCause> IdleTime::shown_causes() const {
  std::vector<IdleCause> causes;
  for (std::size_t i = 0; i < kIdleCauses.size(); ++i)
    if (i < kProfileIdleCauses || gaps[i] > 0) causes.push_back(kIdleCauses[i]);
  return causes;
}

IdleTime idle_time(const DeviceTimeline& timeline) {
  IdleTime idle;
  for (std::uint32_t i = 0; i < timeline.steps.size(); ++i) {
    StepWalk walk(idle, timeline.steps[i]);
    for (std::size_t k = 0; k < timeline.events.size(); ++k)
      if (timeline.events[k].step == i) walk.visit(timeline.events[k], k);
    walk.finish();
  }
  return idle;
}

bool matches_scope(std::string_view pattern, const std::string& scope) {
  return !scope.empty() && ::fnmatch(as_path(pattern).c_str(), as_path(scope).c_str(),
                                     FNM_PATHNAME | FNM_LEADING_DIR | FNM_NOESCAPE) == 0;
}

void select_kernels(Profile& profile, const KernelFilter& filter) {
  if (filter.is_empty() || !profile.has_kernels()) return;
  const KernelSum all = total(profile);
  profile.selection = {describe(filter), all.calls, all.time_ns};
  std::erase_if(profile.kernels, [&](const KernelRecord& kernel) {
    const bool has_phase =
        filter.phases.empty() || std::ranges::find(filter.phases, kernel.phase) != filter.phases.end();
    const bool has_scope = filter.scopes.empty() || std::ranges::any_of(filter.scopes, [&](const std::string& pattern) {
                             return matches_scope(pattern, kernel.scope);
                           });
    return !has_phase || !has_scope;
  });
}

std::string_view bound_of(const RooflineRow& row) {
  if (!row.bound_by_memory) return "matmul rate";
  return row.is_past_floor() ? "cache" : "copy bandwidth";
}

void RooflineGroup::add(const KernelSum& kernel, std::string_view name, const RooflineRates& ceilings) {
  const auto least = [](std::int64_t work, double rate) {
    return work > 0 ? static_cast<double>(work) / rate * kNsPerSecond : 0.0;
  };
  const double compute = least(kernel.flops, ceilings.flops_per_second);
  const double memory = least(kernel.bytes, ceilings.bytes_per_second);
  row.sum.add(kernel);
  row.floor_ns += std::max(compute, memory);
  row.compute_ns += compute;
  row.memory_ns += memory;
  if (memory > compute) memory_floor_ns += memory;
  by_kernel_ns_[name] += kernel.time_ns;
}

void RooflineGroup::finish() {
  row.bound_by_memory = memory_floor_ns > row.floor_ns / 2;
  row.recoverable_ns = std::max(static_cast<double>(row.sum.time_ns) - row.floor_ns, 0.0);
  row.kernel = std::ranges::max_element(by_kernel_ns_, {}, [](const auto& item) { return item.second; })->first;
}

std::vector<RooflineRow> roofline_by_class(const std::vector<RooflineGroup>& groups) {
  std::map<KernelClass, std::pair<RooflineRow, double>> classes;  // a row, and its memory floor
  for (const RooflineGroup& group : groups) {
    auto& [row, memory_floor_ns] = classes[group.kernel_class];
    row.sum.add(group.row.sum);
    row.floor_ns += group.row.floor_ns;
    row.compute_ns += group.row.compute_ns;
    row.memory_ns += group.row.memory_ns;
    row.recoverable_ns += group.row.recoverable_ns;
    memory_floor_ns += group.memory_floor_ns;
  }
  std::vector<RooflineRow> rows;
  for (auto& [kernel_class, entry] : classes) {
    auto& [row, memory_floor_ns] = entry;
    row.what = name(kernel_class);
    row.bound_by_memory = memory_floor_ns > row.floor_ns / 2;
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const RooflineRow& row) { return row.sum.time_ns; });
  return rows;
}

std::vector<RooflineRow> roofline_by_class(const Profile& profile) {
  return has_ceilings(profile) ? roofline_by_class(places(profile)) : std::vector<RooflineRow>();
}

std::vector<RooflineRow> recoverable_time(const Profile& profile) {
  if (!has_ceilings(profile)) return {};
  std::vector<RooflineRow> rows;
  for (RooflineGroup& place : places(profile)) rows.push_back(std::move(place.row));
  std::ranges::stable_sort(rows, std::ranges::greater(), &RooflineRow::recoverable_ns);
  return rows;
}

}  // namespace ridgepoint
