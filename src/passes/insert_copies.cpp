// Makes every operand lie as its kernel asks: a view that strides cannot express, or that the device cannot read
// in place, is preceded by a dense copy. Outputs are made dense, so that reading one is one transfer. A view and its
// transpose that both become matrices of a batch share one copy, whose rows lie as those of the original.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "ops/rule.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

using Permutation = std::vector<std::int64_t>;

const Permutation& permutation_of(const Node& transpose_node) {
  return transpose_node.attributes.get<Permutation>("permutation");
}

class CopyInserter {
 public:
  CopyInserter(Graph& graph, const PassTarget& target) : graph_(graph), target_(target) {}

  bool run() {
    const std::vector<NodeId> order(graph_.order().begin(), graph_.order().end());
    for (const NodeId id : order) visit(id);
    graph_.set_insertion_at_end();
    std::vector<std::pair<Value, Value>> outputs;
    for (const Output& output : graph_.outputs()) {
      const Value dense = comply(output.value, OperandLayout::dense);
      if (dense != output.value) outputs.emplace_back(output.value, dense);
    }
    replace_outputs(outputs);
    return changed_;
  }

 private:
  void visit(NodeId id) {
    Node& node = graph_.node(id);
    graph_.set_insertion_before(id);
    graph_.set_phase(node.phase);
    graph_.set_scope(graph_.scope_name(node));
    if (node.op == Op::reshape && !view_layout(graph_, node, layouts_[node.inputs[0].id])) {
      node.inputs[0] = dense_copy(node.inputs[0]);
    } else if (op_class(node.op) != OpClass::view) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        node.inputs[i] = comply(node.inputs[i], target_.operand_layout(graph_, node, static_cast<int>(i)));
      }
    }
    assign_layouts(graph_, node, layouts_);
    if (node.op == Op::transpose) transposes_.try_emplace({node.inputs[0], permutation_of(node)}, node.outputs[0]);
  }

  Value comply(Value value, OperandLayout required) {
    if (satisfies(layouts_[value.id].layout, required)) return value;
    return required == OperandLayout::batched_matrix ? matrix_copy(value) : dense_copy(value);
  }

  Value matrix_copy(Value value) {
    const TensorLayout& layout = layouts_[value.id].layout;
    const auto last = static_cast<std::size_t>(layout.shape.rank() - 1);
    const bool rows_stand = !layout.immediate && layout.strides[last] != 1 && layout.strides[last - 1] == 1;
    return rows_stand ? with_last_two_swapped(dense_copy(with_last_two_swapped(value))) : dense_copy(value);
  }

  Value with_last_two_swapped(Value value) {
    const auto [base, permutation] = origin_of(value);
    Permutation swapped = permutation;
    std::swap(swapped.end()[-1], swapped.end()[-2]);
    if (std::is_sorted(swapped.begin(), swapped.end())) return base;
    const auto [found, is_new] = transposes_.try_emplace({base, swapped}, Value{});
    if (is_new) {
      found->second = transpose(graph_, base, swapped);
      assign_layouts(graph_, graph_.producer_node(found->second), layouts_);
    }
    return found->second;
  }

  // The value as a transpose of another: of itself, with no axis moved, where no transpose makes it.
  std::pair<Value, Permutation> origin_of(Value value) const {
    const Node& producer = graph_.producer_node(value);
    if (producer.op == Op::transpose) return {producer.inputs[0], permutation_of(producer)};
    Permutation unmoved(static_cast<std::size_t>(graph_.type(value).shape.rank()));
    std::iota(unmoved.begin(), unmoved.end(), 0);
    return {value, unmoved};
  }

  // The first of equal transposes, so that they have one copy.
  Value first_equal(Value value) const {
    const auto found = transposes_.find(origin_of(value));
    return found == transposes_.end() ? value : found->second;
  }

  // One copy serves every later reader.
  Value dense_copy(Value value) {
    value = first_equal(value);
    if (copies_.size() < graph_.value_count()) copies_.resize(graph_.value_count());
    if (copies_[value.id].valid()) return copies_[value.id];
    changed_ = true;
    const Value made = copy(graph_, value);
    graph_.set_type(made, graph_.type(value));  // keeps the labels
    assign_layouts(graph_, graph_.producer_node(made), layouts_);
    copies_.resize(graph_.value_count());
    copies_[value.id] = made;
    return made;
  }

  void replace_outputs(const std::vector<std::pair<Value, Value>>& replacements) {
    if (replacements.empty()) return;
    const std::map<Value, Value> dense(replacements.begin(), replacements.end());
    std::vector<Output> outputs(graph_.outputs().begin(), graph_.outputs().end());
    graph_.clear_outputs();
    for (const Output& output : outputs) {
      const auto found = dense.find(output.value);
      graph_.add_output(output.name, found == dense.end() ? output.value : found->second);
    }
  }

  Graph& graph_;
  const PassTarget& target_;
  std::vector<ValueLayout> layouts_;
  std::vector<Value> copies_;
  std::map<std::pair<Value, Permutation>, Value> transposes_;  // met or made so far
  bool changed_ = false;
};

}  // namespace

bool insert_copies(Graph& graph, const PassOptions& options) { return CopyInserter(graph, options.target).run(); }

}  // namespace ridgepoint
