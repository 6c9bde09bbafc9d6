// Inserts a dense copy before an operand whose strides the kernel does not support, and before a reshape that strides
// cannot express. Outputs are made dense too, so that one transfer reads them. A batched matrix and its transpose share
// one copy, which keeps the contiguous dimension of the original.
#include <map>
#include <utility>

#include "ir/permutation.h"
#include "ir/rewriter.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

class CopyInserter {
 public:
  CopyInserter(Graph& graph, const PassTarget& target) : graph_(graph), rewriter_(graph), target_(target) {}

  bool run() {
    const std::vector<NodeId> nodes = nodes_of(graph_);
    for (const NodeId id : nodes) visit(id);
    if (!nodes.empty()) rewriter_.insert_at_end(nodes.back());
    rewrite_outputs(graph_, [&](Value value) { return with_layout(value, OperandLayout::dense); });
    return changed_;
  }

 private:
  void visit(NodeId id) {
    Node& node = graph_.node(id);
    rewriter_.insert_before(id);
    if (node.op == Op::reshape && !view_layout(graph_, node, layouts_[node.inputs[0].id])) {
      node.inputs[0] = dense_copy(node.inputs[0]);
    } else if (op_class(node.op) != OpClass::view) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        node.inputs[i] = with_layout(node.inputs[i], target_.operand_layout(graph_, node, static_cast<int>(i)));
      }
    }
    assign_layouts(graph_, node, layouts_);
    if (node.op == Op::transpose) transposes_.try_emplace({node.inputs[0], permutation_of(node)}, node.outputs[0]);
  }

  Value with_layout(Value value, OperandLayout required) {
    if (satisfies(layouts_[value.id].layout, required)) return value;
    return required == OperandLayout::batched_matrix ? matrix_copy(value) : dense_copy(value);
  }

  Value matrix_copy(Value value) {
    const TensorLayout& layout = layouts_[value.id].layout;
    const auto last = static_cast<std::size_t>(layout.shape.rank() - 1);
    const bool columns_are_contiguous = !layout.immediate && layout.strides[last] != 1 && layout.strides[last - 1] == 1;
    return columns_are_contiguous ? transposed(dense_copy(transposed(value))) : dense_copy(value);
  }

  Value transposed(Value value) {
    const auto [base, permutation] = origin_of(value);
    const Permutation swapped = with_last_two_swapped(permutation);
    if (is_identity(swapped)) return base;
    const auto [found, is_new] = transposes_.try_emplace({base, swapped}, Value{});
    if (is_new) {
      found->second = transpose(graph_, base, swapped);
      assign_layouts(graph_, graph_.producer_node(found->second), layouts_);
    }
    return found->second;
  }

  // The operand and permutation of a transpose; `value` and the identity where it is not a transpose.
  std::pair<Value, Permutation> origin_of(Value value) const {
    const Node& producer = graph_.producer_node(value);
    if (producer.op == Op::transpose) return {producer.inputs[0], permutation_of(producer)};
    return {value, identity_permutation(graph_.type(value).shape.rank())};
  }

  // The first of equal transposes, so that all share its copy.
  Value first_equal(Value value) const {
    const auto found = transposes_.find(origin_of(value));
    return found == transposes_.end() ? value : found->second;
  }

  // All readers of a value share one copy.
  Value dense_copy(Value value) {
    value = first_equal(value);
    if (copies_.size() < graph_.value_count()) copies_.resize(graph_.value_count());
    if (copies_[value.id].valid()) return copies_[value.id];
    changed_ = true;
    const Value made = rewriter_.copy(value);
    assign_layouts(graph_, graph_.producer_node(made), layouts_);
    copies_.resize(graph_.value_count());
    copies_[value.id] = made;
    return made;
  }

  Graph& graph_;
  Rewriter rewriter_;
  const PassTarget& target_;
  std::vector<ValueLayout> layouts_;
  std::vector<Value> copies_;
  std::map<std::pair<Value, Permutation>, Value> transposes_;  // by operand and permutation
  bool changed_ = false;
};

}  // namespace

bool insert_copies(Graph& graph, const PassOptions& options) { return CopyInserter(graph, options.target).run(); }

}  // namespace ridgepoint
