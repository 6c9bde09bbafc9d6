// roofline_by_class() and recoverable_time(): kernel times against the measured rates of the device.
#include <algorithm>
#include <map>
#include <tuple>

#include "inspect/profile/views.h"

namespace ridgepoint {
namespace {

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
