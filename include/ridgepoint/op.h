// The op enum and the traits of each op: every fact of it that is no function. The list itself is op_list.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridgepoint {

enum class Op : std::uint8_t {
#define RIDGEPOINT_OP(name, ...) name,
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

// What autocast does to the floating operands of an op, as PyTorch's has it. low: they are rounded to the low dtype
// (products). full: they are widened to fp32. widest: they take the widest dtype among them (constants have none).
// own: nothing is done to them. A maximum rounds nothing, so it is no reduction here; rope computes in fp32 inside and
// returns its first operand's dtype.
enum class AutocastRule : std::uint8_t { low, full, widest, own };

// How many floating-point operations a node counts as. each_result: one an element of its result. each_operand: one an
// element of its operand. decomposition: the sum over its decomposition. formula: OpRule::flops says.
enum class Arithmetic : std::uint8_t { none, each_result, each_operand, decomposition, formula };

// What a kernel is for. Attention is the op that does all of it in one; written out in simpler ops its products are
// matmuls and its softmax is softmax. Elementwise counts reductions that belong to nothing else; memory movement is
// copies, look-ups and fills. `unknown` is no op's: it is what no node answers for.
enum class KernelClass : std::uint8_t {
  matmul,
  attention,
  softmax,
  norm,
  elementwise,
  loss,
  optimizer,
  memory_movement,
  unknown
};

inline constexpr Op kAllOps[] = {
#define RIDGEPOINT_OP(name, ...) Op::name,
#include "ridgepoint/op_list.def"
#undef RIDGEPOINT_OP
};
inline constexpr std::size_t kOpCount = sizeof(kAllOps) / sizeof(kAllOps[0]);

// One line of op_list.def.
struct OpTraits {
  std::string_view name;
  int inputs;   // -1: variadic
  int outputs;  // -1: variadic
  OpClass op_class;
  AutocastRule autocast;
  Arithmetic arithmetic;
  KernelClass kernel_class;  // of a node of it, where nothing around it says more
};

const OpTraits& traits(Op op);

std::string_view name(Op op);
std::optional<Op> op_from_name(std::string_view text);
OpClass op_class(Op op);
std::string_view name(OpClass op_class);
std::string_view name(KernelClass kernel_class);

// Declared counts from op_list.def; -1 means variadic.
int input_count(Op op);
int output_count(Op op);

// Whether its nodes run as kernels: they neither enter the graph nor re-read storage.
bool launches(Op op);

}  // namespace ridgepoint
