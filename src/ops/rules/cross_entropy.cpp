// cross_entropy of logits [T,V] and targets [T]: the log-sum-exp of each row minus the logit of its target. Low logits
// are computed with in fp32, in which losses and log-sum-exps are too; the gradient has the dtype of the logits.
// Indices are compared in fp32, which is exact for vocabularies up to 2^24.
//
// With the attribute `z_loss`, a number z, the loss of a row has z lse^2 as well, which keeps the log-sum-exp near 0
// (Chowdhery et al. 2022, "PaLM").
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;

void require_logits(const TensorType& logits, const TensorType& targets) {
  require(is_floating(logits.dtype) && logits.shape.rank() == 2, "logits must be floating [T,V]");
  require(logits.shape[1] > 0 && logits.shape[1] <= kMaxVocabulary, "the vocabulary must have 1 to 2^24 entries");
  require(targets.dtype == DType::int64 && targets.shape.rank() == 1 && targets.shape[0] == logits.shape[0],
          "targets must be int64 [T]");
}

// bool [T,V]: true at each row's target.
Value target_mask(Graph& graph, Value targets, const Shape& logits) {
  const Value index = cast(graph, reshape(graph, targets, row_shape(logits)), DType::fp32);
  return equal(graph, iota(graph, Shape{logits.dim(1)}, 0, DType::fp32), index);
}

double z_loss_of(const Node& node) { return node.attributes.get_or(kZLoss, 0.0); }

std::vector<TensorType> infer_cross_entropy(const ShapeContext& context) {
  require_logits(context.inputs[0], context.inputs[1]);
  const TensorType rows{accumulator(context.inputs[0].dtype), Shape{context.inputs[0].shape.dim(0)}};
  return {rows, rows};
}

std::vector<Value> decompose_cross_entropy(Graph& graph, const Node& node) {
  const TensorType type{accumulator(graph.type(node.inputs[0]).dtype), graph.type(node.inputs[0]).shape};
  const Value logits = cast_to(graph, node.inputs[0], type.dtype);
  const Value top = detach(graph, reduce_max(graph, logits, {-1}, true));
  const Value log_sum_exp =
      add(graph, top, log(graph, reduce_sum(graph, exp(graph, sub(graph, logits, top)), {-1}, true)));
  const Value zero = constant(graph, 0.0, type.dtype);
  const Value picked =
      reduce_sum(graph, where(graph, target_mask(graph, node.inputs[1], type.shape), logits, zero), {-1}, true);
  const Shape rows{type.shape.dim(0)};
  Value loss = sub(graph, log_sum_exp, picked);
  if (const double z = z_loss_of(node); z != 0)
    loss = add(graph, loss, scale(graph, mul(graph, log_sum_exp, log_sum_exp), z));
  return {reshape(graph, loss, rows), reshape(graph, log_sum_exp, rows)};
}

std::vector<Value> vjp_cross_entropy(Graph& graph, const Node& node, std::span<const Value> g) {
  if (!g[0].valid() || g[1].valid()) return {};  // a gradient of the log-sum-exp needs the decomposition
  const std::vector<Value> operands = {g[0], node.inputs[0], node.inputs[1], node.outputs[1]};
  return {make_value(graph, Op::cross_entropy_backward, operands, node.attributes), Value{}};
}

std::vector<TensorType> infer_cross_entropy_backward(const ShapeContext& context) {
  require_logits(context.inputs[1], context.inputs[2]);
  for (const std::size_t i : {0, 3}) {
    require(context.inputs[i].dtype == accumulator(context.inputs[1].dtype),
            "the gradient and the log-sum-exp must be in fp32 for low logits, otherwise in the dtype of the logits");
  }
  const Shape rows{context.inputs[1].shape.dim(0)};
  require(context.inputs[0].shape == rows && context.inputs[3].shape == rows,
          "the gradient and the log-sum-exp must be [T]");
  return {context.inputs[1]};
}

// d logits = (exp(logits - lse) (1 + 2 z lse) - onehot(target)) dy
std::vector<Value> decompose_cross_entropy_backward(Graph& graph, const Node& node) {
  const DType dtype = graph.type(node.inputs[1]).dtype;
  const TensorType type{accumulator(dtype), graph.type(node.inputs[1]).shape};
  const Value logits = cast_to(graph, node.inputs[1], type.dtype);
  const Shape column = row_shape(type.shape);
  const Value log_sum_exp = reshape(graph, node.inputs[3], column);
  Value probability = exp(graph, sub(graph, logits, log_sum_exp));
  if (const double z = z_loss_of(node); z != 0)
    probability = mul(graph, probability, shift(graph, scale(graph, log_sum_exp, 2 * z), 1.0));
  const Value minus_one = shift(graph, probability, -1.0);
  const Value difference = where(graph, target_mask(graph, node.inputs[2], type.shape), minus_one, probability);
  return {cast_to(graph, mul(graph, difference, reshape(graph, node.inputs[0], column)), dtype)};
}

}  // namespace

extern const OpRule rule_cross_entropy{
    .infer = infer_cross_entropy, .vjp = vjp_cross_entropy, .decompose = decompose_cross_entropy};
extern const OpRule rule_cross_entropy_backward{
    .infer = infer_cross_entropy_backward, .decompose = decompose_cross_entropy_backward, .donations = [](const Node&) {
      return std::vector{std::pair{0, 1}};
    }};

std::pair<Value, Value> cross_entropy(Graph& graph, Value logits, Value targets, const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::cross_entropy, {logits, targets}, {}, source));
  return {made.outputs[0], made.outputs[1]};
}

}  // namespace ridgepoint
