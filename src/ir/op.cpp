#include "ridgepoint/op.h"

#include <array>

namespace ridgepoint {
namespace {

struct OpFacts {
  std::string_view name;
  int inputs;
  int outputs;
  OpClass op_class;
};

constexpr std::array<OpFacts, kOpCount> kFacts = {{
#define RIDGEPOINT_OP(name, inputs, outputs, op_class) {#name, inputs, outputs, OpClass::op_class},
#include "ridgepoint/op_list.def"
#undef RIDGEPOINT_OP
}};

const OpFacts& facts(Op op) { return kFacts[static_cast<std::size_t>(op)]; }

}  // namespace

std::string_view name(Op op) { return facts(op).name; }
OpClass op_class(Op op) { return facts(op).op_class; }
int input_count(Op op) { return facts(op).inputs; }
int output_count(Op op) { return facts(op).outputs; }

std::optional<Op> op_from_name(std::string_view text) {
  for (const Op op : kAllOps) {
    if (facts(op).name == text) return op;
  }
  return std::nullopt;
}

std::string_view name(OpClass op_class) {
  constexpr std::array<std::string_view, 9> kNames = {"state",  "view",      "elementwise", "reduction", "contraction",
                                                      "gather", "composite", "collective",  "fused"};
  return kNames[static_cast<std::size_t>(op_class)];
}

}  // namespace ridgepoint
