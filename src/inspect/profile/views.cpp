#include "inspect/profile/views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/types/enum_names.h"
#include "inspect/profile/profile.h"
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
  ScopeTree(int depth, Layers layers) : depth_(depth), layers_(layers) {}

  void add(const KernelRecord& kernel) {
    TreeNode* at = &root_;
    const std::vector<std::string> levels = scope_levels(kernel.scope, layers_);
    for (const std::string& level : levels) {
      if (at->row.level == depth_ + 1) return;
      at = child(*at, level, false);
      count(*at, kernel);
    }
    if (at->row.level <= depth_) count(*child(*at, kernel.op.empty() ? kernel.name : kernel.op, true), kernel);
  }

  std::vector<ScopeRow> rows() const {
    std::vector<ScopeRow> result;
    collect(root_, result);
    return result;
  }

 private:
  static void count(TreeNode& node, const KernelRecord& kernel) {
    node.row.sum.add(kernel);
    node.row.by_phase[static_cast<std::size_t>(kernel.phase)].add(kernel);
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

  int depth_;
  Layers layers_;
  TreeNode root_;
  std::deque<TreeNode> nodes_;
};

constexpr auto kPhaseNames =
    enum_names<ProfilePhase>("forward", "loss", "recompute", "backward", "zeroing", "optimizer");

// The last component of a scope: softmax of layers.0.attn.softmax.
std::string_view module_of(std::string_view scope) {
  const std::size_t dot = scope.rfind('.');
  return dot == std::string_view::npos ? scope : scope.substr(dot + 1);
}

constexpr auto kCauseNames = enum_names<IdleCause>("host late", "dependency", "nothing to do");

// Walks the kernels of one step in order of start.
class StepWalk {
 public:
  StepWalk(IdleTime& idle, const ProfiledStep& step) : idle_(idle), busy_(step.begin_ns, step.end_ns) {
    idle_.wall_ns += step.end_ns - step.begin_ns;
  }

  void visit(const KernelRecord& kernel, std::size_t index) {
    const bool late = kernel.call_start_ns > busy_.until_ns();
    const BusyTime::Added added = busy_.add(kernel.start_ns, kernel.duration_ns);
    if (added.gap_ns > 0) gap({late ? IdleCause::host_late : IdleCause::dependency, added.gap_ns, index});
    idle_.overlap_ns += kernel.duration_ns - added.busy_ns;
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

// A row while kernels are being added to it.
struct Group {
  RooflineRow row;
  KernelClass kernel_class = KernelClass::unknown;
  double memory_floor_ns = 0;
  std::map<std::string_view, std::int64_t> by_kernel_ns;

  void add(const Profile& profile, const KernelRecord& kernel) {
    const double compute = static_cast<double>(kernel.flops) / *profile.matmul_flops_per_second * kNsPerSecond;
    const double memory = static_cast<double>(kernel.bytes) / *profile.copy_bytes_per_second * kNsPerSecond;
    row.sum.add(kernel);
    row.floor_ns += std::max(compute, memory);
    if (memory > compute) memory_floor_ns += memory;
    by_kernel_ns[kernel.name] += kernel.duration_ns;
  }

  void finish() {
    row.bound_by_memory = memory_floor_ns > row.floor_ns / 2;
    row.recoverable_ns = std::max(static_cast<double>(row.sum.time_ns) - row.floor_ns, 0.0);
    row.kernel = std::ranges::max_element(by_kernel_ns, {}, [](const auto& item) { return item.second; })->first;
  }
};

// "layers.*.ffn.w1 matmul": layers added up.
std::string place_of(const KernelRecord& kernel) {
  const std::string text = with_layers_added_up(kernel.scope);
  const std::string& op = kernel.op.empty() ? kernel.name : kernel.op;
  return text.empty() ? op : text + " " + op;
}

// One group for each op, module and phase; sums over layers and steps.
std::vector<Group> places(const Profile& profile) {
  std::map<std::tuple<std::string, ProfilePhase, KernelClass>, Group> groups;
  for (const KernelRecord& kernel : profile.kernels) {
    if (kernel.kernel_class == KernelClass::communication) continue;  // neither rate bounds it
    groups[{place_of(kernel), kernel.phase, kernel.kernel_class}].add(profile, kernel);
  }
  std::vector<Group> result;
  for (auto& [key, group] : groups) {
    std::tie(group.row.what, group.row.phase, group.kernel_class) = key;
    group.finish();
    result.push_back(std::move(group));
  }
  return result;
}

}  // namespace

KernelSum total(const Profile& profile) {
  KernelSum sum;
  for (const KernelRecord& kernel : profile.kernels) sum.add(kernel);
  return sum;
}

std::int64_t wall_ns(const Profile& profile) {
  std::int64_t sum = 0;
  for (const ProfiledStep& step : profile.steps) sum += step.end_ns - step.begin_ns;
  return sum;
}

std::vector<KernelRow> by_kernel(const Profile& profile) {
  std::map<std::string_view, std::pair<KernelSum, std::vector<double>>> rows;
  for (const KernelRecord& kernel : profile.kernels) {
    auto& [sum, samples] = rows[kernel.name];
    sum.add(kernel);
    samples.push_back(static_cast<double>(kernel.duration_ns) / 1e3);
  }
  std::vector<KernelRow> result;
  for (auto& [kernel, row] : rows) {
    result.push_back({std::string(kernel), row.first, describe(std::move(row.second))});
    result.back().us.samples.clear();
  }
  std::ranges::stable_sort(result, [](const KernelRow& a, const KernelRow& b) { return is_longer(a.sum, b.sum); });
  return result;
}

std::vector<ClassRow> by_class(const Profile& profile) {
  std::map<std::pair<ProfilePhase, KernelClass>, KernelSum> sums;
  for (const KernelRecord& kernel : profile.kernels) sums[{kernel.phase, kernel.kernel_class}].add(kernel);
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

std::vector<ScopeRow> by_scope(const Profile& profile, int depth, Layers layers) {
  ScopeTree tree(depth, layers);
  for (const KernelRecord& kernel : profile.kernels) tree.add(kernel);
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

IdleTime idle_time(const Profile& profile) {
  IdleTime idle;
  for (std::uint32_t i = 0; i < profile.steps.size(); ++i) {
    StepWalk walk(idle, profile.steps[i]);
    for (std::size_t k = 0; k < profile.kernels.size(); ++k) {
      if (profile.kernels[k].step == i) walk.visit(profile.kernels[k], k);
    }
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

std::vector<RooflineRow> roofline_by_class(const Profile& profile) {
  if (!has_ceilings(profile)) return {};
  std::map<KernelClass, std::pair<RooflineRow, double>> classes;  // a row, and its memory floor
  for (const Group& place : places(profile)) {
    auto& [row, memory_floor_ns] = classes[place.kernel_class];
    row.sum.add(place.row.sum);
    row.floor_ns += place.row.floor_ns;
    row.recoverable_ns += place.row.recoverable_ns;
    memory_floor_ns += place.memory_floor_ns;
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

std::vector<RooflineRow> recoverable_time(const Profile& profile) {
  if (!has_ceilings(profile)) return {};
  std::vector<RooflineRow> rows;
  for (Group& place : places(profile)) rows.push_back(std::move(place.row));
  std::ranges::stable_sort(rows, std::ranges::greater(), &RooflineRow::recoverable_ns);
  return rows;
}

}  // namespace ridgepoint
