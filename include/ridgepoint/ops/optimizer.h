// The optimizers of a training step. Each is one row of optimizer_list.def, whose columns are OptimizerTraits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {

enum class Optimizer : std::uint8_t {
#define RIDGEPOINT_OPTIMIZER(identifier, ...) identifier,
#include "ridgepoint/ir/optimizer_list.def"
#undef RIDGEPOINT_OPTIMIZER
};
inline constexpr auto kAllOptimizers = std::to_array<Optimizer>({
#define RIDGEPOINT_OPTIMIZER(identifier, ...) Optimizer::identifier,
#include "ridgepoint/ir/optimizer_list.def"
#undef RIDGEPOINT_OPTIMIZER
});

// The elements along the last dimension of a parameter that share one scale, where states are 8-bit codes.
inline constexpr std::int64_t kBlockElements = 256;

// of_parameter: dtype and shape of the parameter. Codes: DType::dynamic8 or udynamic8 in its shape. scales: fp32, one
// for each block of codes.
enum class StateType : std::uint8_t { of_parameter, signed_codes, unsigned_codes, scales };
// Empty where the parameter is not made of whole blocks.
std::optional<TensorType> state_type(StateType type, const TensorType& parameter);

struct OptimizerState {
  std::string_view name;  // its input is optimizer.NAME.PARAMETER
  StateType type = StateType::of_parameter;
  std::string_view needs = {};  // the hyperparameter without which (0) there is no such state
};

struct Hyperparameter {
  std::string_view name;  // the attribute of the op
  double value = 0;
};

struct OptimizerTraits {
  std::string_view name;
  Op op;
  std::string_view formula;                                // where it is defined
  bool counts_steps = false;                               // its first operand is the number of this update
  std::vector<Hyperparameter> hyperparameters;             // with their usual values
  std::vector<OptimizerState> states;                      // of each parameter
  std::optional<Optimizer> without_blocks = std::nullopt;  // updates parameters that are not made of whole blocks
  // The lists of tensors like the parameters that PyTorch's foreach version allocates in a step. Empty: not modelled.
  std::optional<int> torch_temporaries = std::nullopt;
};
const OptimizerTraits& traits(Optimizer optimizer);
std::string_view name(Optimizer optimizer);
// The inverse of name(). Throws Error (usage) naming the nearest.
Optimizer optimizer_from_name(std::string_view text);

struct OptimizerOptions {
  Optimizer kind = Optimizer::adamw;
  std::vector<Hyperparameter> hyperparameters = {};  // the others have their usual values
  // Whether the learning rate is the scalar operand UpdateOperands::learning_rate instead of the hyperparameter.
  bool scheduled = false;
  // Patterns of parameters with weight decay 0 (src/passes/training/training.h). "vectors" stands for every parameter
  // with one dimension.
  std::vector<std::string> no_decay = {};

  // The value of a hyperparameter; empty where the optimizer has none of this name.
  std::optional<double> find(std::string_view name) const;
  // Whether every hyperparameter has its usual value.
  bool is_usual() const;
};
// The states of each parameter, with these hyperparameters.
std::vector<OptimizerState> states_of(const OptimizerOptions& options);

// fp32 scalars. Gradients are multiplied by `gradient_factor`; where `skip` is not 0, nothing is updated.
struct UpdateGuard {
  Value gradient_factor;
  Value skip;
};
struct UpdateOperands {
  Value step = {};  // the fp32 scalar count of this update, 1 for the first; read where the optimizer counts steps
  Value learning_rate = {};  // an fp32 scalar; read where the learning rate is scheduled
  Value parameter = {};
  Value gradient = {};
  std::vector<Value> states = {};
  std::optional<UpdateGuard> guard = {};  // where it skips the update, `step` may be 0
};
// The new parameter and the new states. They may overwrite the operands.
std::vector<Value> optimizer_step(Graph& graph, const OptimizerOptions& options, const UpdateOperands& operands,
                                  const Source& source = Source::current());

}  // namespace ridgepoint
