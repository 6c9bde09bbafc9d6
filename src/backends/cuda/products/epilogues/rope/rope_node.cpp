#include "backends/cuda/products/epilogues/rope/rope_node.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/products/epilogues/body_expressions.h"
#include "ir/queries.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kMostNodes = 12;  // larger bodies are something else

bool is_along_columns(const Node& node) { return normalise_axis(node.attributes.get<std::int64_t>("axis"), 2) == 1; }
// The operand of a reshape; invalid for another node.
Value reshaped(const Graph& body, Value value) {
  const Node& node = body.producer_node(value);
  return node.op == Op::reshape ? node.inputs[0] : Value{};
}

// Whether `whole` is concat(rotated, the other parts of the split of the product) along columns, as the split has them.
bool keeps_other_parts(const Graph& body, const Node& whole, const Node& split, Value product) {
  if (split.op != Op::split || split.inputs[0] != product) return false;
  return is_along_columns(split) && is_along_columns(whole) && whole.inputs.size() == split.outputs.size() &&
         std::equal(whole.inputs.begin() + 1, whole.inputs.end(), split.outputs.begin() + 1) &&
         body.type(whole.inputs[0]).shape == body.type(split.outputs[0]).shape;
}

// Rows of the product are [...,S] of the heads [...,S,H,D].
bool set_heads(const Graph& body, const Node& rope, RopeNode& found) {
  const Shape& heads = body.type(rope.inputs[0]).shape;
  const int rank = heads.rank();
  if (rank < 3 || rope.attributes.get<bool>("inverse")) return false;
  if (normalise_axis(rope.attributes.get<std::int64_t>("axis"), rank) != rank - 3) return false;
  found.sequence = heads[-3];
  found.head = heads[-1];
  return heads[-2] * heads[-1] == found.columns && is_input(body, rope.inputs[1], "2") &&
         is_input(body, rope.inputs[2], "3");
}

}  // namespace

std::optional<RopeNode> rope_of(const FusedBody& of) {
  const Graph& body = of.graph;
  if (body.order().size() > kMostNodes || body.outputs().size() != 1) return std::nullopt;
  const std::optional<NodeId> contraction = product_of(body);
  if (!contraction) return std::nullopt;
  const Node& matmul = body.node(*contraction);
  const Value product = matmul.outputs[0];
  const TensorType& type = body.type(product);
  Value rotated = body.outputs()[0].value;
  if (type.shape.rank() != 2 || body.type(rotated) != type) return std::nullopt;
  for (const Value operand : matmul.inputs) {
    if (body.type(operand).dtype != type.dtype || body.type(operand).shape.rank() != 2) return std::nullopt;
  }
  const Node* const whole = body.producer_node(rotated).op == Op::concat ? &body.producer_node(rotated) : nullptr;
  if (whole != nullptr) rotated = whole->inputs[0];
  const Value heads = reshaped(body, rotated);
  if (!heads.valid() || body.producer_node(heads).op != Op::rope) return std::nullopt;
  const Node& rope = body.producer_node(heads);
  const Value part = reshaped(body, rope.inputs[0]);
  if (!part.valid() || body.type(part).shape.rank() != 2) return std::nullopt;
  const bool is_placed = whole == nullptr ? part == product
                                          : part == body.producer_node(part).outputs[0] &&
                                                keeps_other_parts(body, *whole, body.producer_node(part), product);
  RopeNode found{.tokens = type.shape[0], .features = type.shape[1], .inner = body.type(matmul.inputs[0]).shape[1]};
  found.columns = body.type(part).shape[1];
  return is_placed && set_heads(body, rope, found) ? std::optional(found) : std::nullopt;
}

}  // namespace ridgepoint::cuda
