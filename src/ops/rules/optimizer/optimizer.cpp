#include "ops/rules/optimizer/optimizer.h"

#include <iterator>

#include "core/text/nearest.h"
#include "core/types/enum_names.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

const std::vector<OptimizerTraits>& rows() {
  static const std::vector<OptimizerTraits> all = {
#define RIDGEPOINT_OPTIMIZER(identifier, text, ...) {.name = text, .op = Op::identifier, __VA_ARGS__},
#include "ridgepoint/ir/optimizer_list.def"
#undef RIDGEPOINT_OPTIMIZER
  };
  return all;
}

// `value` gives the value of a hyperparameter.
template <typename ValueOf>
std::vector<OptimizerState> states_with(const OptimizerTraits& optimizer, const ValueOf& value) {
  std::vector<OptimizerState> states;
  states.reserve(optimizer.states.size());
  std::ranges::copy_if(optimizer.states, std::back_inserter(states),
                       [&](const OptimizerState& state) { return state.needs.empty() || value(state.needs) > 0; });
  return states;
}

void require_scalars(const ShapeContext& context, std::size_t scalars, DType dtype) {
  for (std::size_t i = 0; i < scalars; ++i) {
    require(context.inputs[i].shape.rank() == 0, "the step count, the learning rate and the guard must be scalars");
    require(context.inputs[i].dtype == dtype, "scalars must have the type that the parameters are computed in");
  }
}

void require_coded_state(const TensorType& found, const OptimizerState& state, const TensorType& parameter) {
  require(accumulator(parameter.dtype) == DType::fp32, "parameters must be fp32, bf16 or fp16");
  const std::optional<TensorType> type = state_type(state.type, parameter);
  require(type.has_value(),
          [&] { return "the last dimension of a parameter must be a multiple of " + std::to_string(kBlockElements); });
  require(found == *type, [&] { return "the state '" + std::string(state.name) + "' must be " + type->to_string(); });
}

// The parameter, its gradient and the states; `parameter_dtype` is that of both halves, where it is split.
void require_tensor(std::span<const TensorType> operands, DType parameter_dtype, const OptimizerLayout& layout) {
  const DType computed = accumulator(parameter_dtype);
  const TensorType& parameter = operands[0];
  if (layout.is_split) {
    require(parameter.dtype == DType::bf16 && operands.back() == TensorType{DType::low_half, parameter.shape},
            "the halves of a parameter must be bf16 and low_half, of one shape");
  }
  for (std::size_t j = layout.is_split ? 1 : 0; j < layout.states.size() + 2; ++j) {
    const StateType type = j < 2 ? StateType::of_parameter : layout.states[j - 2].type;
    if (type != StateType::of_parameter) {
      require_coded_state(operands[j], layout.states[j - 2], parameter);
      continue;
    }
    const DType found = operands[j].dtype;
    require(found == parameter_dtype || (j == 1 && is_floating(found) && accumulator(found) == computed),
            "operands must have one dtype; only gradients may be bf16 or fp16 beside fp32");
    require(operands[j].shape == parameter.shape, "a parameter, its gradient and its moments must have one shape");
  }
}

UpdateGuard guard_of(const Node& node, const OptimizerLayout& layout) {
  return {node.inputs[*layout.guard], node.inputs[*layout.guard + 1]};
}

// Rounded as the half of a split parameter is, so that the products of a run do not depend on how parameters are
// stored.
Value low_copy(Graph& graph, Value parameter, DType dtype) {
  const bool rounds_away = graph.type(parameter).dtype == DType::fp32 && dtype == DType::bf16;
  return rounds_away ? round_away(graph, parameter) : cast_to(graph, parameter, dtype);
}

void keep_where_skipped(Graph& graph, Value skip, std::span<const Value> before, std::span<Value> after) {
  const Value is_taken = equal(graph, skip, constant(graph, 0.0, graph.type(skip).dtype));
  for (std::size_t i = 0; i < after.size(); ++i) after[i] = where(graph, is_taken, after[i], before[i]);
}

}  // namespace

const OptimizerTraits& traits(Optimizer optimizer) { return rows()[static_cast<std::size_t>(optimizer)]; }
std::string_view name(Optimizer optimizer) { return traits(optimizer).name; }

Optimizer optimizer_from_name(std::string_view text) {
  const auto* const found = std::ranges::find(kAllOptimizers, text, [](Optimizer one) { return name(one); });
  if (found == kAllOptimizers.end()) refuse_name(text, "unknown optimizer '{}'", names_of(kAllOptimizers));
  return *found;
}

std::optional<double> OptimizerOptions::find(std::string_view name) const {
  for (const Hyperparameter& one : traits(kind).hyperparameters) {
    if (one.name != name) continue;
    const auto given = std::ranges::find(hyperparameters, name, &Hyperparameter::name);
    return given == hyperparameters.end() ? one.value : given->value;
  }
  return std::nullopt;
}

bool OptimizerOptions::is_usual() const {
  return std::ranges::all_of(traits(kind).hyperparameters,
                             [&](const Hyperparameter& one) { return find(one.name) == one.value; });
}

std::vector<OptimizerState> states_of(const OptimizerOptions& options) {
  return states_with(traits(options.kind), [&](std::string_view key) { return options.find(key).value_or(0); });
}

std::optional<TensorType> state_type(StateType type, const TensorType& parameter) {
  const Shape& shape = parameter.shape;
  if (type == StateType::of_parameter) return parameter;
  if (shape.rank() == 0 || shape[-1] == 0 || shape[-1] % kBlockElements != 0) return std::nullopt;
  if (type == StateType::scales)
    return TensorType{DType::fp32, with_size(shape, shape.rank() - 1, shape[-1] / kBlockElements)};
  return TensorType{type == StateType::signed_codes ? DType::dynamic8 : DType::udynamic8, shape};
}

std::vector<Value> optimizer_step(Graph& graph, const OptimizerOptions& options, const UpdateOperands& operands,
                                  const Source& source) {
  const OptimizerTraits& optimizer = traits(options.kind);
  Attributes attributes;
  for (const Hyperparameter& one : optimizer.hyperparameters) {
    if (!options.scheduled || one.name != kLearningRate) attributes.set(one.name, *options.find(one.name));
  }
  std::vector<Value> inputs;
  if (optimizer.counts_steps) inputs.push_back(operands.step);
  if (options.scheduled) {
    attributes.set(kScheduled, true);
    inputs.push_back(operands.learning_rate);
  }
  if (operands.guard) {
    attributes.set(kGuarded, true);
    inputs.insert(inputs.end(), {operands.guard->gradient_factor, operands.guard->skip});
  }
  inputs.insert(inputs.end(), {operands.parameter, operands.gradient});
  inputs.insert(inputs.end(), operands.states.begin(), operands.states.end());
  return graph.node(make_node(graph, optimizer.op, std::move(inputs), std::move(attributes), source)).outputs;
}

const OptimizerTraits* optimizer_of(Op op) {
  const auto found = std::ranges::find(rows(), op, &OptimizerTraits::op);
  return found == rows().end() ? nullptr : &*found;
}

std::optional<OptimizerLayout> optimizer_layout(Op op, const Attributes& attributes) {
  const OptimizerTraits* const optimizer = optimizer_of(op);
  if (optimizer == nullptr) return std::nullopt;
  const auto value = [&](std::string_view key) { return attributes.get_or(key, 0.0); };
  OptimizerLayout layout{.scalars = optimizer->counts_steps ? std::size_t{1} : 0,
                         .states = states_with(*optimizer, value),
                         .has_copy = attributes.contains(kLowCopy),
                         .is_split = attributes.get_or(kSplit, false)};
  if (attributes.get_or(kScheduled, false)) layout.learning_rate = layout.scalars++;
  if (attributes.get_or(kGuarded, false)) layout.guard = std::exchange(layout.scalars, layout.scalars + 2);
  return layout;
}

bool reads_gradient(const Node& node, std::size_t operand) {
  if (node.op == Op::nonfinite || node.op == Op::sum_of_squares) return true;
  const std::optional<OptimizerLayout> layout = optimizer_layout(node);
  return layout && layout->is_gradient(operand);
}

bool updates_several_tensors(const Node& node) {
  const std::optional<OptimizerLayout> layout = optimizer_layout(node);
  return layout && node.outputs.size() > layout->results_per_tensor();
}

std::vector<TensorType> infer_optimizer(const ShapeContext& context) {
  const OptimizerLayout layout = *optimizer_layout(context.op, context.attributes);
  for (const Hyperparameter& one : optimizer_of(context.op)->hyperparameters) {
    if (!layout.learning_rate || one.name != kLearningRate) context.attributes.get<double>(one.name);
  }
  const std::size_t stride = layout.operands_per_tensor();
  require(context.inputs.size() >= layout.scalars + stride && (context.inputs.size() - layout.scalars) % stride == 0,
          [&] {
            return "operands must be " + std::to_string(layout.scalars) + " scalar(s) and " + std::to_string(stride) +
                   " operands per tensor";
          });
  DType dtype = context.inputs[layout.scalars].dtype;
  require(is_floating(dtype), "operands must be floating");
  if (layout.is_split) dtype = accumulator(dtype);
  require_scalars(context, layout.scalars, accumulator(dtype));
  std::optional<DType> copy;
  if (layout.has_copy) copy = dtype_from_name(context.attributes.get<std::string>(kLowCopy));
  std::vector<TensorType> outputs;
  for (std::size_t i = layout.scalars; i < context.inputs.size(); i += stride) {
    require_tensor(context.inputs.subspan(i, stride), dtype, layout);
    outputs.push_back(context.inputs[i]);
    for (std::size_t j = 0; j < layout.kept_per_tensor(); ++j) outputs.push_back(context.inputs[i + 2 + j]);
    if (copy) outputs.push_back({*copy, context.inputs[i].shape});
  }
  return outputs;
}

std::vector<std::pair<int, int>> donations_of_optimizer(const Node& node) {
  const OptimizerLayout layout = *optimizer_layout(node);
  const auto stride = static_cast<int>(layout.operands_per_tensor());
  std::vector<std::pair<int, int>> pairs;
  int result = 0;
  for (int i = static_cast<int>(layout.scalars); i < static_cast<int>(node.inputs.size()); i += stride) {
    pairs.emplace_back(result, i);
    for (int j = 1; j <= static_cast<int>(layout.kept_per_tensor()); ++j) pairs.emplace_back(result + j, i + 1 + j);
    result += static_cast<int>(layout.results_per_tensor());
  }
  return pairs;
}

std::vector<Value> decompose_optimizer(Graph& graph, const Node& node, UpdateFormula formula) {
  const OptimizerLayout layout = *optimizer_layout(node);
  const DType computed = accumulator(graph.type(node.inputs[layout.scalars]).dtype);
  std::vector<Value> results;
  for (std::size_t i = layout.scalars; i < node.inputs.size(); i += layout.operands_per_tensor()) {
    const std::span<const Value> operands = std::span(node.inputs).subspan(i, layout.operands_per_tensor());
    std::vector<Value> before = {layout.is_split ? join_halves(graph, operands[0], operands.back()) : operands[0]};
    before.insert(before.end(), operands.begin() + 2,
                  operands.begin() + 2 + static_cast<std::ptrdiff_t>(layout.states.size()));
    TensorUpdate tensor{cast_to(graph, before[0], computed), cast_to(graph, operands[1], computed), {}};
    if (layout.guard) tensor.gradient = mul(graph, tensor.gradient, guard_of(node, layout).gradient_factor);
    for (std::size_t j = 0; j < layout.states.size(); ++j) {
      const bool is_number = layout.states[j].type == StateType::of_parameter;
      tensor.states.push_back(is_number ? cast_to(graph, before[j + 1], computed) : before[j + 1]);
    }
    std::vector<Value> after = formula(graph, node, tensor);
    for (std::size_t j = 0; j < after.size(); ++j) after[j] = cast_to(graph, after[j], graph.type(before[j]).dtype);
    if (layout.guard) keep_where_skipped(graph, guard_of(node, layout).skip, before, after);
    if (layout.has_copy)
      after.push_back(low_copy(graph, after[0], dtype_from_name(node.attributes.get<std::string>(kLowCopy))));
    if (layout.is_split) {
      after.push_back(cast(graph, after[0], DType::low_half));
      after[0] = round_away(graph, after[0]);
    }
    results.insert(results.end(), after.begin(), after.end());
  }
  return results;
}

}  // namespace ridgepoint
