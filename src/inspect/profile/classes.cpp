// The class of a kernel, and the names of the phases.
#include <string_view>

#include "core/types/enum_names.h"
#include "inspect/profile/profile.h"

namespace ridgepoint {
namespace {

constexpr auto kPhaseNames =
    enum_names<ProfilePhase>("forward", "loss", "recompute", "backward", "zeroing", "optimizer");

// The last component of a scope: softmax of layers.0.attn.softmax.
std::string_view module_of(std::string_view scope) {
  const std::size_t dot = scope.rfind('.');
  return dot == std::string_view::npos ? scope : scope.substr(dot + 1);
}

}  // namespace

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

}  // namespace ridgepoint
