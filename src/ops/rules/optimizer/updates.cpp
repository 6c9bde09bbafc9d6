// The formulas of the optimizers; the order of operands and results is in optimizer.h.
//
// AdamW (Loshchilov & Hutter 2019) as torch.optim.AdamW computes it, for any number of tensors; with moments in fp32,
// and in 8-bit codes (Dettmers et al. 2022, as bitsandbytes and torchao compute it). A block of 256 neighbours along
// the last dimension has one scale, its largest magnitude, and a code (core/dynamic_code.h) for each element's share of
// it. A step decodes the moments, updates them and the parameter in fp32, and encodes the new moments.
#include <array>
#include <cmath>
#include <optional>

#include "ops/rules/optimizer/optimizer.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

// 1 - beta^step = -expm1(step ln beta). 1 - pow() would lose digits to cancellation in early steps.
Value bias_correction(Graph& graph, Value step, double beta) {
  return neg(graph, expm1(graph, scale(graph, step, std::log(beta))));
}

// The learning rate of a node: a scalar operand where it is scheduled, otherwise a number.
class LearningRate {
 public:
  LearningRate(Graph& graph, const Node& node)
      : graph_(graph), weight_decay_(node.attributes.get<double>("weight_decay")) {
    if (const auto operand = optimizer_layout(node)->learning_rate) {
      operand_ = node.inputs[*operand];
    } else {
      number_ = node.attributes.get<double>(kLearningRate);
    }
  }

  Value value(DType dtype) const { return operand_ ? *operand_ : constant(graph_, number_, dtype); }
  Value times(Value x) const { return operand_ ? mul(graph_, x, *operand_) : scale(graph_, x, number_); }
  // With decoupled weight decay.
  Value decayed(Value parameter) const {
    if (!operand_) return scale(graph_, parameter, 1.0 - number_ * weight_decay_);
    return mul(graph_, parameter, shift(graph_, scale(graph_, *operand_, -weight_decay_), 1.0));
  }

 private:
  Graph& graph_;
  const double weight_decay_;
  std::optional<Value> operand_;
  double number_ = 0;
};

// a * share + b * (1 - share)
Value mean(Graph& graph, Value a, Value b, double share) {
  const Value of_b = scale(graph, b, 1.0 - share);
  return add(graph, scale(graph, a, share), of_b);
}

// The states are the two moments.
std::vector<Value> update_adamw(Graph& graph, const Node& node, const TensorUpdate& tensor) {
  const auto attribute = [&](const char* key) { return node.attributes.get<double>(key); };
  const double beta1 = attribute("beta1");
  const double beta2 = attribute("beta2");
  const LearningRate learning_rate(graph, node);
  const Value step = node.inputs[0];
  const Value first_correction = bias_correction(graph, step, beta1);
  const Value rate = div(graph, learning_rate.value(graph.type(step).dtype), first_correction);
  const Value second_correction = rsqrt(graph, bias_correction(graph, step, beta2));
  const Value first = mean(graph, tensor.states[0], tensor.gradient, beta1);
  const Value second = mean(graph, tensor.states[1], mul(graph, tensor.gradient, tensor.gradient), beta2);
  const Value divisor = shift(graph, mul(graph, sqrt(graph, second), second_correction), attribute("epsilon"));
  const Value decayed = learning_rate.decayed(tensor.parameter);
  return {sub(graph, decayed, mul(graph, rate, div(graph, first, divisor))), first, second};
}

// [..., 256 B] as [..., B, 256], and [..., B] as [..., B, 1].
Value in_blocks(Graph& graph, Value x, std::int64_t elements = kBlockElements) {
  const Shape& shape = graph.type(x).shape;
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = Dim(shape[-1] / elements);
  dims.emplace_back(elements);
  return reshape(graph, x, Shape(dims));
}

// A moment [..., B, 256] of codes and scales.
Value decoded(Graph& graph, Value codes, Value scales) {
  const Value factors = in_blocks(graph, scales, 1);
  return mul(graph, in_blocks(graph, cast(graph, codes, DType::fp32)), factors);
}

// {codes, scales} in the types of the old ones. A block of zeros has the scale 0; its quotients are NaN, which has the
// code of 0.
std::array<Value, 2> encoded(Graph& graph, Value moment, Value magnitude, const Value* before) {
  const Value scales = reduce_max(graph, magnitude, {-1}, true);
  const TensorType codes = graph.type(before[0]);
  const Value shares = reshape(graph, div(graph, moment, scales), codes.shape);
  return {cast(graph, shares, codes.dtype), reshape(graph, scales, Shape(graph.type(before[1]).shape))};
}

// The states are the codes of the first moment, their scales, the codes of the second moment and their scales.
std::vector<Value> update_adamw_8bit(Graph& graph, const Node& node, const TensorUpdate& tensor) {
  const Shape shape = graph.type(tensor.parameter).shape;
  const Value parameter = in_blocks(graph, tensor.parameter);
  const Value gradient = in_blocks(graph, tensor.gradient);
  const Value* states = tensor.states.data();
  const Value first_before = decoded(graph, states[0], states[1]);
  const Value second_before = decoded(graph, states[2], states[3]);
  const std::vector<Value> updated = update_adamw(graph, node, {parameter, gradient, {first_before, second_before}});
  const Value magnitude = maximum(graph, updated[1], neg(graph, updated[1]));
  const auto first = encoded(graph, updated[1], magnitude, states);
  const auto second = encoded(graph, updated[2], updated[2], states + 2);
  return {reshape(graph, updated[0], shape), first[0], first[1], second[0], second[1]};
}

// 0 for a NaN, as torch.sign() has it.
Value sign(Graph& graph, Value x) {
  const auto number = [&](double value) { return constant(graph, value, graph.type(x).dtype); };
  const Value otherwise = number(0);
  const Value minus_one = number(-1);
  const Value negative = where(graph, less(graph, x, number(0)), minus_one, otherwise);
  const Value one = number(1);
  return where(graph, less(graph, number(0), x), one, negative);
}

// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"), for any number of tensors: the parameter
// moves by the sign of a mean of gradient and momentum. Weight decay is decoupled.
std::vector<Value> update_lion(Graph& graph, const Node& node, const TensorUpdate& tensor) {
  const auto attribute = [&](const char* key) { return node.attributes.get<double>(key); };
  const LearningRate learning_rate(graph, node);
  const Value momentum = tensor.states[0];
  const Value direction = sign(graph, mean(graph, momentum, tensor.gradient, attribute("beta1")));
  const Value decayed = learning_rate.decayed(tensor.parameter);
  return {sub(graph, decayed, learning_rate.times(direction)),
          mean(graph, momentum, tensor.gradient, attribute("beta2"))};
}

// Stochastic gradient descent as torch.optim.SGD computes it (dampening 0, not Nesterov's), for any number of tensors.
// Weight decay is added to the gradient. With momentum, the state of a tensor is its momentum buffer, which begins as
// zeros; PyTorch begins with the first gradient, which is the same.
std::vector<Value> update_sgd(Graph& graph, const Node& node, const TensorUpdate& tensor) {
  const double decay = node.attributes.get<double>("weight_decay");
  const double momentum = node.attributes.get<double>("momentum");
  Value direction = tensor.gradient;
  if (decay != 0) direction = add(graph, direction, scale(graph, tensor.parameter, decay));
  if (momentum > 0) direction = add(graph, scale(graph, tensor.states[0], momentum), direction);
  std::vector<Value> results = {sub(graph, tensor.parameter, LearningRate(graph, node).times(direction))};
  if (momentum > 0) results.push_back(direction);
  return results;
}

}  // namespace

extern const OpRule rule_adamw = optimizer_rule<update_adamw>();
extern const OpRule rule_adamw_8bit = optimizer_rule<update_adamw_8bit>();
extern const OpRule rule_lion = optimizer_rule<update_lion>();
extern const OpRule rule_sgd = optimizer_rule<update_sgd>();

}  // namespace ridgepoint
