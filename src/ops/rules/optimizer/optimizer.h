// What the nodes that update parameters have in common: the order of their operands and results.
//
// Operands: scalars, then for each tensor the parameter, its gradient and the states of the optimizer. Results: for
// each tensor the new parameter and states, which may overwrite the old ones, then, with the attribute `copy` (a
// dtype), the new parameter rounded to it.
//
// With the attribute `split`, the parameter is bf16, and its low_half is one operand more behind the states, and one
// result more: the fp32 parameter in two halves (core/types/halves.h). The scalars and the states are as for that one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "ops/rule.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/optimizer.h"

namespace ridgepoint {

struct OptimizerLayout {
  std::size_t scalars = 0;                        // operands before those of the tensors
  std::optional<std::size_t> learning_rate = {};  // the scalar that is the learning rate
  std::optional<std::size_t> guard = {};          // the first scalar of the guard
  std::vector<OptimizerState> states;             // of each tensor
  bool has_copy = false;
  bool is_split = false;

  // What follows the gradient among the operands, and the parameter among the results, and may be overwritten.
  std::size_t kept_per_tensor() const { return states.size() + (is_split ? 1 : 0); }
  std::size_t operands_per_tensor() const { return 2 + kept_per_tensor(); }
  std::size_t results_per_tensor() const { return 1 + kept_per_tensor() + (has_copy ? 1 : 0); }
  // Whether a part of a parameter must be whole blocks, because states are codes.
  bool has_blocks() const {
    return std::ranges::any_of(states, [](const auto& state) { return state.type != StateType::of_parameter; });
  }
  bool is_gradient(std::size_t operand) const {
    return operand >= scalars && (operand - scalars) % operands_per_tensor() == 1;
  }
};

// The optimizer whose op it is; null for an op that is no optimizer.
const OptimizerTraits* optimizer_of(Op op);

// Empty for an op that is no optimizer.
std::optional<OptimizerLayout> optimizer_layout(Op op, const Attributes& attributes);
inline std::optional<OptimizerLayout> optimizer_layout(const Node& node) {
  return optimizer_layout(node.op, node.attributes);
}
// Whether the node is an optimizer's over more than one tensor.
bool updates_several_tensors(const Node& node);

// The attribute of an optimizer whose learning rate is a scalar, behind the step count, instead of an attribute.
inline constexpr const char* kScheduled = "scheduled";
inline constexpr const char* kLearningRate = "learning_rate";
// The attribute of an optimizer whose step may be skipped: two scalars (UpdateGuard) follow its other scalars.
inline constexpr const char* kGuarded = "guarded";
// The attributes of an optimizer that also writes a low copy, and of one whose parameter is in two halves.
inline constexpr const char* kLowCopy = "copy";
inline constexpr const char* kSplit = "split";

// Whether the node reads the operand as a gradient: element by element, so in low precision or in parts as well.
bool reads_gradient(const Node& node, std::size_t operand);

// The shape rule of an optimizer. A parameter may be bf16 or fp16, and so may a gradient alone; the arithmetic has
// their accumulator's type, which is that of the scalars.
std::vector<TensorType> infer_optimizer(const ShapeContext& context);
// New parameters and states overwrite the old ones.
std::vector<std::pair<int, int>> donations_of_optimizer(const Node& node);

// One tensor of an optimizer's node while it is decomposed.
struct TensorUpdate {
  Value parameter, gradient;  // in the accumulator's type; the gradient with the guard's factor
  std::vector<Value> states;  // in the accumulator's type; codes and their scales as they are
};
// The new parameter and states. They are rounded to the types of the operands afterwards.
using UpdateFormula = std::vector<Value> (*)(Graph& graph, const Node& node, const TensorUpdate& tensor);
// Decomposes an optimizer: applies the formula to every tensor, rounds the results to the types of the operands, keeps
// old values where the guard skips, and makes the copies.
std::vector<Value> decompose_optimizer(Graph& graph, const Node& node, UpdateFormula formula);

// The rule of the optimizer with this formula.
template <UpdateFormula kFormula>
constexpr OpRule optimizer_rule() {
  return {.infer = infer_optimizer,
          .decompose = [](Graph& graph, const Node& node) { return decompose_optimizer(graph, node, kFormula); },
          .donations = donations_of_optimizer};
}

}  // namespace ridgepoint
