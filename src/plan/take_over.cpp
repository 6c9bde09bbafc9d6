#include "plan/take_over.h"

#include <algorithm>
#include <vector>

#include "lowering/row_program.h"
#include "ops/in_place.h"
#include "ops/rule.h"

namespace ridgepoint {
namespace {

std::vector<TensorLayout> layouts_of(std::span<const Value> values, std::span<const ValueLayout> layouts) {
  std::vector<TensorLayout> result;
  for (const Value value : values) result.push_back(layouts[value.id].layout);
  return result;
}

// The back ends store elements in the last sweep over a row, after they have read those at the same addresses.
bool reads_elements_first(const Graph& graph, const Node& node, Value target, std::span<const ValueLayout> layouts) {
  const auto programs =
      lower_to_rows(body_of(graph, node), layouts_of(node.inputs, layouts), layouts_of(node.outputs, layouts));
  if (!programs || programs->size() != 1 || programs->front().outputs.size() != 1) return false;
  const RowOutput& output = programs->front().outputs.front();
  if (output.store != RowStore::element) return false;
  return std::ranges::all_of(programs->front().instructions, [&](const RowInstruction& instruction) {
    if (instruction.kind != RowKind::load) return true;
    const Value operand = node.inputs[static_cast<std::size_t>(instruction.input)];
    return layouts[operand.id].root != target || instruction.access == output.access;
  });
}

}  // namespace

bool can_take_over(const Graph& graph, const Node& node, Value target, std::span<const ValueLayout> layouts) {
  if (node.outputs.size() != 1) return false;
  if (rule(node.op).donations != nullptr) return can_write_over(node, 0, target, layouts);
  const bool is_by_element = node.op == Op::fused || op_class(node.op) == OpClass::elementwise;
  return is_by_element && reads_elements_first(graph, node, target, layouts);
}

}  // namespace ridgepoint
