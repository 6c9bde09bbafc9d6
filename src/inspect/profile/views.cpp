#include "inspect/profile/views.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

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

}  // namespace ridgepoint
