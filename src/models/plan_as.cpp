#include "ridgepoint/models/plan_as.h"

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kPlanAsNames = enum_names<PlanAs>("ridgepoint", "torch", "torch-fused");

}  // namespace

std::string_view name(PlanAs as) { return kPlanAsNames[as]; }
PlanAs plan_as_from_name(std::string_view text) {
  return kPlanAsNames.parse(text, "plan cannot predict the memory of '{}'");
}

}  // namespace ridgepoint
