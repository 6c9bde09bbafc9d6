// What a kernel is for, and what that is called.
#include <string_view>

#include "core/enum_names.h"
#include "measure/profile/profile.h"

namespace ridgepoint {
namespace {

constexpr auto kPhaseNames = enum_names<ProfilePhase>("forward", "loss", "backward", "zeroing", "optimizer");
constexpr auto kClassNames = enum_names<KernelClass>("matmul", "attention", "softmax", "norm", "elementwise", "loss",
                                                     "optimizer", "memory movement", "unknown");

// The last component of a scope: softmax of layers.0.attn.softmax.
std::string_view module_of(std::string_view scope) {
  const std::size_t dot = scope.rfind('.');
  return dot == std::string_view::npos ? scope : scope.substr(dot + 1);
}

KernelClass class_of_op(Op op) {
  switch (op) {
    case Op::attention:
    case Op::attention_backward:
      return KernelClass::attention;
    case Op::softmax:
    case Op::softmax_backward:
      return KernelClass::softmax;
    case Op::rms_norm:
    case Op::rms_norm_backward:
    case Op::layer_norm:
    case Op::layer_norm_backward:
      return KernelClass::norm;
    case Op::cross_entropy:
    case Op::cross_entropy_backward:
      return KernelClass::loss;
    case Op::nonfinite:
    case Op::adamw:
      return KernelClass::optimizer;
    case Op::copy:
      return KernelClass::memory_movement;
    default:
      break;
  }
  switch (op_class(op)) {
    case OpClass::contraction:
      return KernelClass::matmul;
    case OpClass::gather:
    case OpClass::collective:
      return KernelClass::memory_movement;
    default:
      return KernelClass::elementwise;
  }
}

}  // namespace

std::string_view name(ProfilePhase phase) { return kPhaseNames[phase]; }
ProfilePhase profile_phase_from_name(std::string_view text) { return kPhaseNames.parse(text, "'{}' is unknown"); }

std::string_view name(KernelClass kernel_class) { return kClassNames[kernel_class]; }

KernelClass kernel_class(const Graph& graph, const Node& node) {
  const KernelClass by_op = class_of_op(node.op);
  if (by_op != KernelClass::elementwise) return by_op;
  if (node.phase == Phase::optimizer) return KernelClass::optimizer;
  const std::string_view source = graph.source_name(node);
  const std::string_view module = module_of(graph.scope_name(node));
  if (module == "softmax" || source.starts_with("softmax.")) return KernelClass::softmax;
  if (source.starts_with("rms_norm.")) return KernelClass::norm;
  if (module == "loss" || source.starts_with("cross_entropy.")) return KernelClass::loss;
  return KernelClass::elementwise;
}

}  // namespace ridgepoint
