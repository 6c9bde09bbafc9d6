#include "ops/overwrite.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "ops/rule.h"

namespace ridgepoint {
namespace {

// What a node reads, by the storage that it lies in, and the operand that each result takes over.
struct Overwrites {
  Overwrites(const Node& node, std::span<const ValueLayout> layouts) : donated(node.outputs.size(), SIZE_MAX) {
    for (const Value value : node.inputs) reads[layouts[value.id].root.id].push_back(value);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) result_of.emplace(node.outputs[i].id, i);
    const OpRule& op_rule = rule(node.op);
    if (op_rule.donations == nullptr) return;
    for (const auto& [output, operand] : op_rule.donations(node)) {
      std::size_t& first = donated[static_cast<std::size_t>(output)];
      if (first == SIZE_MAX) first = static_cast<std::size_t>(operand);
    }
  }

  std::unordered_map<std::uint32_t, std::vector<Value>> reads;  // by root
  std::unordered_map<std::uint32_t, std::size_t> result_of;     // by value
  std::vector<std::size_t> donated;
};

// Whether the layout is that of layout_with_rows() with longer rows.
bool has_padded_rows(const TensorLayout& layout) {
  const int rank = layout.shape.rank();
  if (rank < 2 || layout.immediate) return false;
  const std::int64_t row = layout.strides[static_cast<std::size_t>(rank - 2)];
  return row > layout.shape[-1] && layout.strides == dense_strides(with_size(layout.shape, rank - 1, row));
}

}  // namespace

std::size_t donated_operand(const Node& node, std::size_t index) {
  const OpRule& op_rule = rule(node.op);
  if (op_rule.donations == nullptr) return SIZE_MAX;
  for (const auto& [output, operand] : op_rule.donations(node)) {
    if (static_cast<std::size_t>(output) == index) return static_cast<std::size_t>(operand);
  }
  return SIZE_MAX;
}

bool can_write_over(const Node& node, std::size_t index, std::size_t donated, std::span<const Value> read,
                    std::span<const ValueLayout> layouts) {
  if (read.empty()) return true;
  const TensorLayout& result = layouts[node.outputs[index].id].layout;
  const bool is_padded = has_padded_rows(result);
  if (!is_padded && !result.is_dense()) return false;
  const auto lies_alike = [&](Value value) {
    const auto& [root, offset, layout] = layouts[value.id];
    if (!is_padded) return layout.is_dense();
    return offset == 0 && !layout.immediate && layout.shape == result.shape && layout.strides == result.strides;
  };
  if (op_class(node.op) == OpClass::elementwise) return std::ranges::all_of(read, lies_alike);
  return donated < node.inputs.size() && read.size() == 1 && read.front() == node.inputs[donated] &&
         lies_alike(read.front());
}

std::vector<bool> are_written_in_place(const Graph& graph, std::span<const Update> updates,
                                       std::span<const ValueLayout> layouts) {
  std::map<NodeId, Overwrites> known;
  std::vector<bool> answers;
  for (const Update& update : updates) {
    const NodeId id = graph.producer(update.value);
    const Node& node = graph.node(id);
    if (!launches(node.op)) {
      answers.push_back(false);
      continue;
    }
    const Overwrites& of_node = known.try_emplace(id, node, layouts).first->second;
    const auto read = of_node.reads.find(update.input.id);
    const std::size_t result = of_node.result_of.at(update.value.id);
    answers.push_back(can_write_over(node, result, of_node.donated[result],
                                     read == of_node.reads.end() ? std::span<const Value>() : read->second, layouts));
  }
  return answers;
}

}  // namespace ridgepoint
