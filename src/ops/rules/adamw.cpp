// AdamW (Loshchilov & Hutter 2019) as torch.optim.AdamW computes it, for any number of tensors. Operands: the step
// count, then parameter, gradient, first and second moment of each tensor. A gradient may be bf16 or fp16; the
// arithmetic has the type of the parameter. Results: the new parameter and moments of each, which may overwrite the old
// ones. With the attribute `guarded`, two scalars follow the step count: a factor of every gradient, and a flag that
// skips the update where it is not 0. With the attribute `copy` (a dtype), the new parameter cast to it is a fourth
// result of each tensor.
#include "ops/rules/adamw.h"

#include <cmath>
#include <optional>
#include <utility>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_adamw(const ShapeContext& context) {
  const std::size_t scalars = adamw_scalars(context.attributes);
  require(context.inputs.size() >= scalars + kAdamWOperandsPerTensor &&
              context.inputs.size() % kAdamWOperandsPerTensor == scalars % kAdamWOperandsPerTensor,
          "operands must be " + std::to_string(scalars) + " scalar(s) and four operands per tensor");
  const DType dtype = context.inputs[0].dtype;
  require(is_floating(dtype), "operands must be floating");
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const DType found = context.inputs[i].dtype;
    const bool is_gradient = i >= scalars && (i - scalars) % kAdamWOperandsPerTensor == 1;
    require(found == dtype || (is_gradient && is_low(found) && accumulator(found) == dtype),
            "operands must have one dtype; only gradients may be bf16 or fp16 beside fp32");
  }
  std::optional<DType> copy;
  if (context.attributes.contains("copy")) copy = dtype_from_name(context.attributes.get<std::string>("copy"));
  for (std::size_t i = 0; i < scalars; ++i) {
    require(context.inputs[i].shape.rank() == 0, "the step count and the guard must be scalars");
  }
  for (const char* key : {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"})
    context.attributes.get<double>(key);
  std::vector<TensorType> outputs;
  for (std::size_t i = scalars; i < context.inputs.size(); i += kAdamWOperandsPerTensor) {
    for (std::size_t j = 1; j < 4; ++j) {
      require(context.inputs[i + j].shape == context.inputs[i].shape,
              "a parameter, its gradient and its moments must have one shape");
    }
    outputs.insert(outputs.end(), {context.inputs[i], context.inputs[i + 2], context.inputs[i + 3]});
    if (copy) outputs.push_back({*copy, context.inputs[i].shape});
  }
  return outputs;
}

// 1 - beta^step = -expm1(step ln beta). 1 - pow() would lose digits to cancellation in early steps.
Value bias_correction(Graph& graph, Value step, double beta) {
  return neg(graph, expm1(graph, scale(graph, step, std::log(beta))));
}

std::vector<Value> decompose_adamw(Graph& graph, const Node& node) {
  const double beta1 = node.attributes.get<double>("beta1");
  const double beta2 = node.attributes.get<double>("beta2");
  const double learning_rate = node.attributes.get<double>("learning_rate");
  const DType dtype = graph.type(node.inputs[0]).dtype;
  const Value rate = div(graph, constant(graph, learning_rate, dtype), bias_correction(graph, node.inputs[0], beta1));
  const Value second_correction = rsqrt(graph, bias_correction(graph, node.inputs[0], beta2));
  const std::size_t scalars = adamw_scalars(node.attributes);
  const bool guarded = scalars > 1;
  std::vector<Value> results;
  for (std::size_t i = scalars; i < node.inputs.size(); i += kAdamWOperandsPerTensor) {
    Value gradient = cast_to(graph, node.inputs[i + 1], dtype);
    if (guarded) gradient = mul(graph, gradient, node.inputs[1]);
    const Value first = add(graph, scale(graph, node.inputs[i + 2], beta1), scale(graph, gradient, 1.0 - beta1));
    const Value second =
        add(graph, scale(graph, node.inputs[i + 3], beta2), scale(graph, mul(graph, gradient, gradient), 1.0 - beta2));
    const Value divisor =
        shift(graph, mul(graph, sqrt(graph, second), second_correction), node.attributes.get<double>("epsilon"));
    const Value decayed =
        scale(graph, node.inputs[i], 1.0 - learning_rate * node.attributes.get<double>("weight_decay"));
    results.insert(results.end(), {sub(graph, decayed, mul(graph, rate, div(graph, first, divisor))), first, second});
    if (guarded) {
      const Value is_taken = equal(graph, node.inputs[2], constant(graph, 0.0, dtype));
      const Value before[] = {node.inputs[i], node.inputs[i + 2], node.inputs[i + 3]};
      for (std::size_t j = 0; j < 3; ++j) {
        Value& result = results[results.size() - 3 + j];
        result = where(graph, is_taken, result, before[j]);
      }
    }
    if (adamw_results_per_tensor(node.attributes) == 4) {
      const DType copy = dtype_from_name(node.attributes.get<std::string>("copy"));
      results.push_back(cast_to(graph, results[results.size() - 3], copy));
    }
  }
  return results;
}

std::vector<std::pair<int, int>> donations_adamw(const Node& node) {
  std::vector<std::pair<int, int>> pairs;
  const int scalars = static_cast<int>(adamw_scalars(node.attributes));
  const int tensors = (static_cast<int>(node.inputs.size()) - scalars) / 4;
  for (int t = 0; t < tensors; ++t) {
    const int first = scalars + 4 * t;
    const int result = static_cast<int>(adamw_results_per_tensor(node.attributes)) * t;
    pairs.insert(pairs.end(), {{result, first}, {result + 1, first + 2}, {result + 2, first + 3}});
  }
  return pairs;
}

}  // namespace

extern const OpRule rule_adamw{.infer = infer_adamw, .decompose = decompose_adamw, .donations = donations_adamw};

namespace {

Attributes attributes_of(const AdamWOptions& options) {
  return {{"learning_rate", options.learning_rate},
          {"beta1", options.beta1},
          {"beta2", options.beta2},
          {"epsilon", options.epsilon},
          {"weight_decay", options.weight_decay}};
}

std::array<Value, 3> update(Graph& graph, std::vector<Value> operands, Attributes attributes, const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::adamw, std::move(operands), std::move(attributes), source));
  return {made.outputs[0], made.outputs[1], made.outputs[2]};
}

}  // namespace

std::size_t adamw_results_per_tensor(const Attributes& attributes) { return attributes.contains("copy") ? 4 : 3; }
std::size_t adamw_scalars(const Attributes& attributes) { return attributes.get_or("guarded", false) ? 3 : 1; }

std::array<Value, 3> adamw(Graph& graph, Value step, Value parameter, Value gradient, Value first_moment,
                           Value second_moment, const AdamWOptions& options, const Source& source) {
  return update(graph, {step, parameter, gradient, first_moment, second_moment}, attributes_of(options), source);
}

std::array<Value, 3> guarded_adamw(Graph& graph, Value step, const UpdateGuard& guard, Value parameter, Value gradient,
                                   Value first_moment, Value second_moment, const AdamWOptions& options,
                                   const Source& source) {
  Attributes attributes = attributes_of(options);
  attributes.set("guarded", true);
  return update(graph, {step, guard.gradient_factor, guard.skip, parameter, gradient, first_moment, second_moment},
                std::move(attributes), source);
}

}  // namespace ridgepoint
