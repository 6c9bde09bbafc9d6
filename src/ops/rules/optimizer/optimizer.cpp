#include "ops/rules/optimizer/optimizer.h"

#include "ops/shape_rules.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

void require_scalars(const ShapeContext& context, std::size_t scalars, DType dtype) {
  for (std::size_t i = 0; i < scalars; ++i) {
    require(context.inputs[i].shape.rank() == 0, "the step count and the guard must be scalars");
    require(context.inputs[i].dtype == dtype, "scalars must have the type that the parameters are computed in");
  }
}

// The parameter and its gradient, and the states where they are like the parameter.
void require_tensor(std::span<const TensorType> operands, DType parameter_dtype, bool has_plain_states) {
  const DType computed = accumulator(parameter_dtype);
  for (std::size_t j = 0; j < (has_plain_states ? operands.size() : 2); ++j) {
    const DType found = operands[j].dtype;
    require(found == parameter_dtype || (j == 1 && is_floating(found) && accumulator(found) == computed),
            "operands must have one dtype; only gradients may be bf16 or fp16 beside fp32");
    require(operands[j].shape == operands[0].shape, "a parameter, its gradient and its moments must have one shape");
  }
}

// The two scalars of the guard are the last before the tensors.
UpdateGuard guard_of(const Node& node, const OptimizerLayout& layout) {
  return {node.inputs[layout.scalars - 2], node.inputs[layout.scalars - 1]};
}

void keep_where_skipped(Graph& graph, Value skip, std::span<const Value> before, std::span<Value> after) {
  const Value is_taken = equal(graph, skip, constant(graph, 0.0, graph.type(skip).dtype));
  for (std::size_t i = 0; i < after.size(); ++i) after[i] = where(graph, is_taken, after[i], before[i]);
}

}  // namespace

std::optional<OptimizerLayout> optimizer_layout(Op op, const Attributes& attributes) {
  const std::size_t guard = attributes.get_or(kGuarded, false) ? 2 : 0;
  const bool has_copy = attributes.contains("copy");
  switch (op) {
    case Op::adamw:
      return OptimizerLayout{.scalars = 1 + guard, .states = 2, .has_copy = has_copy};
    case Op::adamw_8bit:
      return OptimizerLayout{.scalars = 1 + guard, .states = 4, .has_copy = has_copy};
    case Op::sgd: {
      const std::size_t states = attributes.get_or("momentum", 0.0) > 0 ? 1 : 0;
      return OptimizerLayout{.scalars = guard, .states = states, .has_copy = has_copy};
    }
    default:
      return std::nullopt;
  }
}

bool updates_several_tensors(const Node& node) {
  const std::optional<OptimizerLayout> layout = optimizer_layout(node);
  return layout && node.outputs.size() > layout->results_per_tensor();
}

std::vector<TensorType> infer_optimizer(const ShapeContext& context) {
  const OptimizerLayout layout = *optimizer_layout(context.op, context.attributes);
  const std::size_t stride = layout.operands_per_tensor();
  require(context.inputs.size() >= layout.scalars + stride && (context.inputs.size() - layout.scalars) % stride == 0,
          "operands must be " + std::to_string(layout.scalars) + " scalar(s) and " + std::to_string(stride) +
              " operands per tensor");
  const DType dtype = context.inputs[layout.scalars].dtype;
  require(is_floating(dtype), "operands must be floating");
  require_scalars(context, layout.scalars, accumulator(dtype));
  std::optional<DType> copy;
  if (layout.has_copy) copy = dtype_from_name(context.attributes.get<std::string>("copy"));
  std::vector<TensorType> outputs;
  for (std::size_t i = layout.scalars; i < context.inputs.size(); i += stride) {
    require_tensor(context.inputs.subspan(i, stride), dtype, context.op != Op::adamw_8bit);
    outputs.push_back(context.inputs[i]);
    for (std::size_t j = 0; j < layout.states; ++j) outputs.push_back(context.inputs[i + 2 + j]);
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
    for (int j = 1; j <= static_cast<int>(layout.states); ++j) pairs.emplace_back(result + j, i + 1 + j);
    result += static_cast<int>(layout.results_per_tensor());
  }
  return pairs;
}

std::vector<Value> decompose_optimizer(Graph& graph, const Node& node, UpdateFormula formula) {
  const OptimizerLayout layout = *optimizer_layout(node);
  const bool is_guarded = node.attributes.get_or(kGuarded, false);
  const bool is_plain = node.op != Op::adamw_8bit;
  const DType computed = accumulator(graph.type(node.inputs[layout.scalars]).dtype);
  std::vector<Value> results;
  for (std::size_t i = layout.scalars; i < node.inputs.size(); i += layout.operands_per_tensor()) {
    std::vector<Value> before = {node.inputs[i]};
    before.insert(before.end(), node.inputs.begin() + static_cast<std::ptrdiff_t>(i) + 2,
                  node.inputs.begin() + static_cast<std::ptrdiff_t>(i + layout.operands_per_tensor()));
    TensorUpdate tensor{cast_to(graph, before[0], computed), cast_to(graph, node.inputs[i + 1], computed), {}};
    if (is_guarded) tensor.gradient = mul(graph, tensor.gradient, guard_of(node, layout).gradient_factor);
    for (std::size_t j = 1; j < before.size(); ++j)
      tensor.states.push_back(is_plain ? cast_to(graph, before[j], computed) : before[j]);
    std::vector<Value> after = formula(graph, node, tensor);
    for (std::size_t j = 0; j < after.size(); ++j) after[j] = cast_to(graph, after[j], graph.type(before[j]).dtype);
    if (is_guarded) keep_where_skipped(graph, guard_of(node, layout).skip, before, after);
    if (layout.has_copy)
      after.push_back(cast_to(graph, after[0], dtype_from_name(node.attributes.get<std::string>("copy"))));
    results.insert(results.end(), after.begin(), after.end());
  }
  return results;
}

}  // namespace ridgepoint
