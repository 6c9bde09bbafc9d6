// Whose allocations `plan` predicts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

// ridgepoint: those of this engine. torch: those of the same model in PyTorch's eager mode, with AdamW as it comes,
// which is foreach. torch_fused: the same with AdamW(fused=True).
enum class PlanAs : std::uint8_t { ridgepoint, torch, torch_fused };
inline constexpr std::array kAllPlanAs = {PlanAs::ridgepoint, PlanAs::torch, PlanAs::torch_fused};
// ridgepoint torch torch-fused
std::string_view name(PlanAs as);
// The inverse of name(). Throws Error (usage) naming the nearest.
PlanAs plan_as_from_name(std::string_view text);

}  // namespace ridgepoint
