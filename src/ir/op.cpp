#include "ridgepoint/ir/op.h"

#include <array>

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr std::array<OpTraits, kOpCount> kTraits = {{
#define RIDGEPOINT_OP(name, inputs, outputs, op_class, autocast, arithmetic, kernel_class, ...) \
  {#name,                                                                                       \
   inputs,                                                                                      \
   outputs,                                                                                     \
   OpClass::op_class,                                                                           \
   AutocastRule::autocast,                                                                      \
   Arithmetic::arithmetic,                                                                      \
   KernelClass::kernel_class __VA_OPT__(, Effort::__VA_ARGS__)},
#include "ridgepoint/ir/op_list.def"
#undef RIDGEPOINT_OP
}};

constexpr auto kClassNames =
    enum_names<OpClass>("state", "view", "placement", "elementwise", "reduction", "contraction", "gather", "experts",
                        "recurrence", "composite", "collective", "transfer", "fused");
constexpr auto kKernelClassNames =
    enum_names<KernelClass>("matmul", "attention", "softmax", "norm", "elementwise", "loss", "optimizer",
                            "memory movement", "communication", "unknown");

}  // namespace

const OpTraits& traits(Op op) { return kTraits[static_cast<std::size_t>(op)]; }

std::string_view name(Op op) { return traits(op).name; }
OpClass op_class(Op op) { return traits(op).op_class; }
int input_count(Op op) { return traits(op).inputs; }
int output_count(Op op) { return traits(op).outputs; }

bool launches(Op op) {
  const OpClass kind = op_class(op);
  return kind != OpClass::state && kind != OpClass::view && kind != OpClass::placement;
}

bool runs_beside(Op op) { return op_class(op) == OpClass::collective || op_class(op) == OpClass::transfer; }

std::optional<Op> op_from_name(std::string_view text) {
  for (const Op op : kAllOps) {
    if (name(op) == text) return op;
  }
  return std::nullopt;
}

std::string_view name(OpClass op_class) { return kClassNames[op_class]; }

std::string_view name(KernelClass kernel_class) { return kKernelClassNames[kernel_class]; }

}  // namespace ridgepoint
