// The op enum and its derived facts. The list itself is op_list.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridgepoint {

enum class Op : std::uint8_t {
#define RIDGEPOINT_OP(name, inputs, outputs, op_class) name,
#include "ridgepoint/op_list.def"
#undef RIDGEPOINT_OP
};

// state: enters the graph. view: re-reads storage. composite: carries a decomposition into simpler ops.
enum class OpClass : std::uint8_t {
  state,
  view,
  elementwise,
  reduction,
  contraction,
  gather,
  composite,
  collective,
  fused
};

inline constexpr Op kAllOps[] = {
#define RIDGEPOINT_OP(name, inputs, outputs, op_class) Op::name,
#include "ridgepoint/op_list.def"
#undef RIDGEPOINT_OP
};
inline constexpr std::size_t kOpCount = sizeof(kAllOps) / sizeof(kAllOps[0]);

std::string_view name(Op op);
std::optional<Op> op_from_name(std::string_view text);
OpClass op_class(Op op);
std::string_view name(OpClass op_class);

// Declared counts from op_list.def; -1 means variadic.
int input_count(Op op);
int output_count(Op op);

}  // namespace ridgepoint
