#include "ops/in_place.h"

#include <algorithm>

#include "ops/rule.h"

namespace ridgepoint {
namespace {

// The operand whose storage result `index` takes over, or SIZE_MAX.
std::size_t donated_operand(const Node& node, std::size_t index) {
  const OpRule& op_rule = rule(node.op);
  if (op_rule.donations == nullptr) return SIZE_MAX;
  for (const auto& [output, operand] : op_rule.donations(node)) {
    if (static_cast<std::size_t>(output) == index) return static_cast<std::size_t>(operand);
  }
  return SIZE_MAX;
}

}  // namespace

bool can_write_over(const Node& node, std::size_t index, Value target, std::span<const ValueLayout> layouts) {
  const auto is_in_target = [&](Value value) { return layouts[value.id].root == target; };
  if (std::ranges::none_of(node.inputs, is_in_target)) return true;
  const auto is_dense = [&](Value value) { return layouts[value.id].layout.is_dense(); };
  if (!is_dense(node.outputs[index])) return false;
  if (op_class(node.op) == OpClass::elementwise) {
    return std::ranges::all_of(node.inputs, [&](Value value) { return !is_in_target(value) || is_dense(value); });
  }
  const std::size_t donated = donated_operand(node, index);
  return donated < node.inputs.size() && is_in_target(node.inputs[donated]) && is_dense(node.inputs[donated]) &&
         std::ranges::count_if(node.inputs, is_in_target) == 1;
}

}  // namespace ridgepoint
