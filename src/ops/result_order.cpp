#include "ops/result_order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

std::string attribute_name(std::size_t index) { return "result_order_" + std::to_string(index); }

}  // namespace

std::optional<Permutation> result_order(const Node& node, std::size_t index, int rank) {
  if (node.attributes.items().empty()) return std::nullopt;
  const std::string attribute = attribute_name(index);
  if (!node.attributes.contains(attribute)) return std::nullopt;
  const auto& order = node.attributes.get<Permutation>(attribute);
  Permutation axes = order;
  std::ranges::sort(axes);
  if (axes != identity_permutation(rank)) {
    throw Error("the attribute '" + attribute + "' of '" + std::string(name(node.op)) +
                "' must be a permutation of the " + std::to_string(rank) + " axes of the result");
  }
  return order;
}

bool set_result_order(Node& node, std::size_t index, const std::optional<Permutation>& order) {
  const std::string attribute = attribute_name(index);
  Attributes changed;
  for (const auto& [key, value] : node.attributes.items()) {
    if (key != attribute) changed.set(key, value);
  }
  if (order) changed.set(attribute, *order);
  if (changed == node.attributes) return false;
  node.attributes = std::move(changed);
  return true;
}

TensorLayout layout_in_order(const TensorType& type, const Permutation& order) {
  TensorLayout layout = dense_layout(type);
  std::int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    layout.strides[static_cast<std::size_t>(*axis)] = stride;
    stride *= type.shape[static_cast<int>(*axis)];
  }
  return layout;
}

}  // namespace ridgepoint
