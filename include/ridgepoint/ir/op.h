// The op enum and the traits of each op. The list itself is op_list.def; functions of an op are in src/ops.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridgepoint {

enum class Op : std::uint8_t {
#define RIDGEPOINT_OP(name, ...) name,
#include "ridgepoint/ir/op_list.def"
#undef RIDGEPOINT_OP
};

// state: a value from outside the graph. view: reads the storage of its operand with other strides, without a kernel.
// placement: its operands are written in the storage of its result, so that no kernel puts them there. experts: routes
// tokens to experts, or multiplies groups of rows by the matrices of their experts.
// recurrence: carries a state along a sequence.
// composite: has a decomposition into simpler ops. collective: its results depend on the operands of all ranks; a
// communicator runs it, beside the device's kernels. transfer: copies between the memory of the host and that of the
// device, also beside the device's kernels. fused: has a body (Node::body).
enum class OpClass : std::uint8_t {
  state,
  view,
  placement,
  elementwise,
  reduction,
  contraction,
  gather,
  experts,
  recurrence,
  composite,
  collective,
  transfer,
  fused
};

// What autocast does to the floating operands of an op, after torch.autocast. low: casts them to bf16 or fp16 (matrix
// products). full: casts them to fp32. widest: casts them to the widest dtype among them, constants excepted. own:
// leaves them unchanged. reduce_max is `widest` because a maximum does not round; rope is `own` because it computes in
// fp32 and returns the dtype of its first operand.
enum class AutocastRule : std::uint8_t { low, full, widest, own };

// How the floating-point operations of a node are counted. each_result: one per element of its result. each_operand:
// one per element of its operand. decomposition: the sum over its decomposition. formula: OpRule::flops.
enum class Arithmetic : std::uint8_t { none, each_result, each_operand, decomposition, formula };

// The class of a kernel in a profile. attention: the ops attention and linear_attention only; attention in simpler ops
// counts as matmul and softmax. elementwise includes reductions that belong to no other class. memory movement: copies,
// gathers and fills. communication: collectives, transfers. unknown: a kernel that no node launched; no op has it.
enum class KernelClass : std::uint8_t {
  matmul,
  attention,
  softmax,
  norm,
  elementwise,
  loss,
  optimizer,
  memory_movement,
  communication,
  unknown
};

// What an element of an elementwise op takes. simple: an instruction. division: one of those that take several times as
// long. function: exponentials and the like, of many instructions. It decides what a kernel keeps and what it computes
// again.
enum class Effort : std::uint8_t { simple, division, function };

inline constexpr Op kAllOps[] = {
#define RIDGEPOINT_OP(name, ...) Op::name,
#include "ridgepoint/ir/op_list.def"
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
  KernelClass kernel_class;  // of a node without an origin
  Effort effort = Effort::simple;
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

// Whether nodes of the op run a kernel: all but state, views and placements.
bool launches(Op op);

// Whether nodes of the op may still run while later launches do: collectives and transfers.
bool runs_beside(Op op);

}  // namespace ridgepoint
