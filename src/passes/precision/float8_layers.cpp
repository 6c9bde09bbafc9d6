#include "passes/precision/float8_layers.h"

#include <algorithm>

#include "ir/stored_tensors.h"

namespace ridgepoint {
namespace {

// cuBLASLt's products in 8 bits take sizes of multiples of 16. Narrower layers, such as adapters, would gain nothing.
constexpr std::int64_t kFloat8Multiple = 16;
constexpr std::int64_t kLeastFloat8Width = 128;

}  // namespace

Float8Layers::Float8Layers(const Graph& graph) : graph_(graph), readers_(graph), is_model_result_(graph.value_count()) {
  for (const Output& output : graph.outputs())
    if (output.role != OutputRole::activation) is_model_result_[output.value.id] = true;
}

bool Float8Layers::contains(NodeId product) const {
  const Node& node = graph_.node(product);
  if (node.op != Op::matmul || graph_.type(node.outputs[0]).shape.rank() != 2) return false;
  const Shape& left = graph_.type(node.inputs[0]).shape;
  const Shape& right = graph_.type(node.inputs[1]).shape;
  const bool has_weight = std::ranges::any_of(node.inputs, [&](Value value) {
    const Node& root = graph_.producer_node(view_root(graph_, value));
    return root.op == Op::input && input_role(root) == Role::parameter;
  });
  const auto is_wide = [](std::int64_t size) { return size >= kLeastFloat8Width && size % kFloat8Multiple == 0; };
  return has_weight && left[0] > 0 && left[0] % kFloat8Multiple == 0 && is_wide(left[1]) && is_wide(right[1]) &&
         !reaches_loss(node.outputs[0]);
}

// Whether the loss or a result of the model is the value, or follows from it without another product.
bool Float8Layers::reaches_loss(Value value) const {
  if (is_model_result_[value.id]) return true;
  return std::ranges::any_of(readers_.of(value), [&](NodeId id) {
    const Node& reader = graph_.node(id);
    if (reader.op == Op::cross_entropy) return true;
    const bool is_passed_on =
        op_class(reader.op) == OpClass::view || reader.op == Op::cast || reader.op == Op::soft_cap;
    return is_passed_on && std::ranges::any_of(reader.outputs, [&](Value result) { return reaches_loss(result); });
  });
}

}  // namespace ridgepoint
