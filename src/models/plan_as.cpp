#include "ridgepoint/plan_as.h"

#include "core/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kNames = enum_names<PlanAs>("ridgepoint", "torch", "torch-fused");

}  // namespace

std::string_view name(PlanAs as) { return kNames[as]; }
PlanAs plan_as_from_name(std::string_view text) { return kNames.parse(text, "plan cannot predict the memory of '{}'"); }

}  // namespace ridgepoint
