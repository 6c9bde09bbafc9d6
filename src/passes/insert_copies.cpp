// Makes every operand lie as its kernel asks: a view that strides cannot express, or that the device cannot read
// in place, is preceded by a dense copy. Outputs are made dense, so that reading one is one transfer.
#include "ops/rule.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

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
  }

  Value comply(Value value, OperandLayout required) {
    return satisfies(layouts_[value.id].layout, required) ? value : dense_copy(value);
  }

  // One copy serves every later reader.
  Value dense_copy(Value value) {
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
    std::vector<Output> outputs(graph_.outputs().begin(), graph_.outputs().end());
    graph_.clear_outputs();
    for (const Output& output : outputs) {
      Value value = output.value;
      for (const auto& [from, to] : replacements) {
        if (value == from) value = to;
      }
      graph_.add_output(output.name, value);
    }
  }

  Graph& graph_;
  const PassTarget& target_;
  std::vector<ValueLayout> layouts_;
  std::vector<Value> copies_;
  bool changed_ = false;
};

}  // namespace

bool insert_copies(Graph& graph, const PassOptions& options) { return CopyInserter(graph, options.target).run(); }

}  // namespace ridgepoint
