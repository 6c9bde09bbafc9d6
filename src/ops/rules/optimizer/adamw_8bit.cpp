// AdamW with moments in 8-bit codes (Dettmers et al. 2022, as bitsandbytes and torchao compute it), for any number of
// tensors. A block of 256 neighbours along the last dimension has one scale, its largest magnitude, and a code
// (core/dynamic_code.h) for each element's share of it. A step decodes the moments, updates them and the parameter in
// fp32 as AdamW does, and encodes the new moments. The states of a tensor are the codes of the first moment, their
// scales, the codes of the second moment and their scales. The order of operands and results is in optimizer.h.
#include "ops/rules/optimizer/adamw.h"
#include "ops/rules/optimizer/optimizer.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

Shape scales_shape(const Shape& shape) { return with_size(shape, shape.rank() - 1, shape[-1] / kMomentBlockElements); }

void require_moments(std::span<const TensorType> operands) {
  const Shape& shape = operands[0].shape;
  require(accumulator(operands[0].dtype) == DType::fp32, "parameters must be fp32, bf16 or fp16");
  require(has_moment_blocks(shape), "the last dimension of a parameter must be a multiple of 256");
  const TensorType scales{DType::fp32, scales_shape(shape)};
  require(operands[2] == TensorType{DType::dynamic8, shape} && operands[4] == TensorType{DType::udynamic8, shape},
          "moments must be dynamic8 and udynamic8, in the shape of the parameter");
  require(operands[3] == scales && operands[5] == scales,
          "scales must be fp32 with one element for 256 of the last dimension");
}

std::vector<TensorType> infer_adamw_8bit(const ShapeContext& context) {
  require_adamw_attributes(context.attributes);
  const OptimizerLayout layout = *optimizer_layout(context.op, context.attributes);
  std::vector<TensorType> outputs = infer_optimizer(context);
  for (std::size_t i = layout.scalars; i < context.inputs.size(); i += layout.operands_per_tensor())
    require_moments(context.inputs.subspan(i, layout.operands_per_tensor()));
  return outputs;
}

// x as [..., blocks, 256].
Value in_blocks(Graph& graph, Value x) {
  const Shape& shape = graph.type(x).shape;
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = Dim(shape[-1] / kMomentBlockElements);
  dims.emplace_back(kMomentBlockElements);
  return reshape(graph, x, Shape(dims));
}

// A moment [..., blocks, 256] of codes and scales.
Value decoded(Graph& graph, Value codes, Value scales) {
  const Shape& shape = graph.type(scales).shape;
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  dims.emplace_back(1);
  return mul(graph, in_blocks(graph, cast(graph, codes, DType::fp32)), reshape(graph, scales, Shape(dims)));
}

// {codes, scales}. A block of zeros has the scale 0; its quotients are NaN, which has the code of 0.
std::array<Value, 2> encoded(Graph& graph, Value moment, Value magnitude, const Shape& shape, DType codes) {
  const Value scales = reduce_max(graph, magnitude, {-1}, true);
  const Value shares = reshape(graph, div(graph, moment, scales), shape);
  return {cast(graph, shares, codes), reshape(graph, scales, scales_shape(shape))};
}

std::vector<Value> update_8bit(Graph& graph, const Node& node, const TensorUpdate& tensor) {
  const Shape shape = graph.type(tensor.parameter).shape;
  const AdamWUpdate updated = update_adamw(graph, node,
                                           {.parameter = in_blocks(graph, tensor.parameter),
                                            .gradient = in_blocks(graph, tensor.gradient),
                                            .first = decoded(graph, tensor.states[0], tensor.states[1]),
                                            .second = decoded(graph, tensor.states[2], tensor.states[3])});
  const Value magnitude = maximum(graph, updated.first, neg(graph, updated.first));
  const auto first = encoded(graph, updated.first, magnitude, shape, DType::dynamic8);
  const auto second = encoded(graph, updated.second, updated.second, shape, DType::udynamic8);
  return {reshape(graph, updated.parameter, shape), first[0], first[1], second[0], second[1]};
}

std::vector<Value> decompose_adamw_8bit(Graph& graph, const Node& node) {
  return decompose_optimizer(graph, node, update_8bit);
}

}  // namespace

extern const OpRule rule_adamw_8bit{
    .infer = infer_adamw_8bit, .decompose = decompose_adamw_8bit, .donations = donations_of_optimizer};

QuantisedUpdate adamw_8bit(Graph& graph, Value step, Value parameter, Value gradient, const QuantisedMoments& moments,
                           const AdamWOptions& options, const std::optional<UpdateGuard>& guard, const Source& source) {
  Attributes attributes = adamw_attributes(options);
  std::vector<Value> operands = {step};
  if (guard) {
    attributes.set(kGuarded, true);
    operands.insert(operands.end(), {guard->gradient_factor, guard->skip});
  }
  operands.insert(operands.end(),
                  {parameter, gradient, moments.first, moments.first_scales, moments.second, moments.second_scales});
  const std::vector<Value> made =
      graph.node(make_node(graph, Op::adamw_8bit, std::move(operands), std::move(attributes), source)).outputs;
  return {made[0], {made[1], made[2], made[3], made[4]}};
}

}  // namespace ridgepoint
