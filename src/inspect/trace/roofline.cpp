#include "inspect/trace/roofline.h"

#include <algorithm>
#include <array>
#include <optional>

namespace ridgepoint {

std::string_view arithmetic_of(std::string_view dtype, std::string_view kernel) {
  // As cuBLAS and CUTLASS name them.
  constexpr std::array<std::string_view, 2> kTf32 = {"tf32", "s1688gemm"};
  constexpr std::array<std::string_view, 3> kFp32 = {"sgemm", "simt", "f32f32_f32f32"};
  const auto is_part = [&](std::string_view part) { return kernel.find(part) != std::string_view::npos; };
  if (dtype != "fp32") return dtype;
  if (std::ranges::any_of(kTf32, is_part)) return "tf32";
  return std::ranges::any_of(kFp32, is_part) ? "fp32" : "fp32 or tf32";
}

void RooflineOfTrace::add(KernelClass kernel_class, std::string_view kernel, const KernelSum& work,
                          std::string_view dtype) {
  if (kernel_class == KernelClass::communication || work.flops + work.bytes == 0) return;
  const bool multiplies = kernel_class == KernelClass::matmul || kernel_class == KernelClass::attention;
  const std::optional<double> rate =
      datasheet_flops_per_second(card_, dtype.empty() && !multiplies ? "fp32" : arithmetic_of(dtype, kernel));
  if (work.flops > 0 && !rate) return;
  RooflineGroup& group = groups_[{kernel_class, kernel}];
  group.kernel_class = kernel_class;
  group.add(work, kernel, {rate.value_or(0), card_.bytes_per_second});
}

TraceRoofline RooflineOfTrace::finish() {
  std::vector<RooflineGroup> groups;
  for (auto& [key, group] : groups_) {
    group.finish();
    groups.push_back(std::move(group));
  }
  return {std::string(card_.card), card_.bytes_per_second, roofline_by_class(groups)};
}

}  // namespace ridgepoint
