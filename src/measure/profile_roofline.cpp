// How far kernels are from what the device can do: roofline_by_class() and recoverable_time().
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "measure/profile_views.h"

namespace ridgepoint {
namespace {

double seconds_to_ns(double seconds) { return seconds * 1e9; }

double compute_ns(const Profile& profile, const KernelRecord& kernel) {
  return seconds_to_ns(static_cast<double>(kernel.flops) / *profile.matmul_flops_per_second);
}
double memory_ns(const Profile& profile, const KernelRecord& kernel) {
  return seconds_to_ns(static_cast<double>(kernel.bytes) / *profile.copy_bytes_per_second);
}

bool has_ceilings(const Profile& profile) {
  return profile.matmul_flops_per_second.value_or(0) > 0 && profile.copy_bytes_per_second.value_or(0) > 0;
}

// A row being added up: floors by what binds them, and the longest kernel.
struct Group {
  RooflineRow row;
  double memory_floor_ns = 0;
  std::map<std::string_view, std::int64_t> by_kernel_ns;

  void add(const Profile& profile, const KernelRecord& kernel) {
    const double compute = compute_ns(profile, kernel);
    const double memory = memory_ns(profile, kernel);
    const double floor = std::max(compute, memory);
    row.sum.add(kernel);
    row.floor_ns += floor;
    if (memory > compute) memory_floor_ns += floor;
    row.recoverable_ns += std::max(static_cast<double>(kernel.duration_ns) - floor, 0.0);
    by_kernel_ns[kernel.name] += kernel.duration_ns;
  }

  RooflineRow finish() {
    row.bound_by_memory = memory_floor_ns > row.floor_ns / 2;
    row.kernel = std::ranges::max_element(by_kernel_ns, {}, [](const auto& item) { return item.second; })->first;
    return std::move(row);
  }
};

// "layers.*.ffn.w1 matmul": layers added up.
std::string place_of(const KernelRecord& kernel) {
  const std::string text = fmt::format("{}", fmt::join(scope_levels(kernel.scope, Layers::added_up), "."));
  const std::string& op = kernel.op.empty() ? kernel.name : kernel.op;
  return text.empty() ? op : text + " " + op;
}

}  // namespace

double floor_ns(const Profile& profile, const KernelRecord& kernel) {
  return has_ceilings(profile) ? std::max(compute_ns(profile, kernel), memory_ns(profile, kernel)) : 0;
}

std::vector<RooflineRow> roofline_by_class(const Profile& profile) {
  if (!has_ceilings(profile)) return {};
  std::map<KernelClass, Group> groups;
  for (const KernelRecord& kernel : profile.kernels) groups[kernel.kernel_class].add(profile, kernel);
  std::vector<RooflineRow> rows;
  for (auto& [kernel_class, group] : groups) {
    group.row.what = name(kernel_class);
    rows.push_back(group.finish());
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const RooflineRow& row) { return row.sum.time_ns; });
  return rows;
}

std::vector<RooflineRow> recoverable_time(const Profile& profile) {
  if (!has_ceilings(profile)) return {};
  std::map<std::pair<std::string, ProfilePhase>, Group> groups;
  for (const KernelRecord& kernel : profile.kernels) groups[{place_of(kernel), kernel.phase}].add(profile, kernel);
  std::vector<RooflineRow> rows;
  for (auto& [key, group] : groups) {
    std::tie(group.row.what, group.row.phase) = key;
    rows.push_back(group.finish());
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &RooflineRow::recoverable_ns);
  return rows;
}

}  // namespace ridgepoint
