#include "passes/precision/head_products.h"

#include <algorithm>

namespace ridgepoint {

HeadProducts::HeadProducts(const Graph& graph) : graph_(graph), readers_(graph), is_model_result_(graph.value_count()) {
  for (const Output& output : graph.outputs())
    if (output.role != OutputRole::activation) is_model_result_[output.value.id] = true;
}

bool HeadProducts::contains(Value value) const {
  if (is_model_result_[value.id]) return true;
  return std::ranges::any_of(readers_.of(value), [&](NodeId id) {
    const Node& reader = graph_.node(id);
    if (reader.op == Op::cross_entropy) return true;
    const bool is_passed_on =
        op_class(reader.op) == OpClass::view || reader.op == Op::cast || reader.op == Op::soft_cap;
    return is_passed_on && std::ranges::any_of(reader.outputs, [&](Value result) { return contains(result); });
  });
}

}  // namespace ridgepoint
