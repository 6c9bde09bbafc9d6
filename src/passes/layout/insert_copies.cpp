// Inserts a dense copy of an operand in three cases: the kernel does not support its strides, a reshape cannot be
// expressed by strides, or no kernel can write an operand of concat in place. Kernels ask for aligned rows only if the
// rows of a dense tensor would be aligned. Outputs are made dense too, so that one transfer reads them. A batched
// matrix and its transpose share one copy, which keeps the contiguous dimension of the original.
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class CopyInserter {
 public:
  CopyInserter(Graph& graph, const PassTarget& target)
      : graph_(graph), readers_(graph), rewriter_(graph), target_(target) {}

  bool run() {
    find_places();
    const std::vector<NodeId> nodes = nodes_of(graph_);
    for (const NodeId id : nodes) visit(id);
    if (!nodes.empty()) rewriter_.insert_at_end(nodes.back());
    rewrite_outputs(graph_, [&](Output& output) { output.value = with_layout(output.value, OperandLayout::dense); });
    return changed_;
  }

 private:
  void visit(NodeId id) {
    Node& node = graph_.node(id);
    rewriter_.insert_before(id);
    if (node.op == Op::reshape && view_layouts(graph_, node, layouts_[node.inputs[0].id]).empty()) {
      node.inputs[0] = dense_copy(node.inputs[0]);
    } else if (node.op == Op::concat) {
      place(node);
    } else if (op_class(node.op) != OpClass::view) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        node.inputs[i] = with_layout(node.inputs[i], target_.operand_layout(graph_, node, static_cast<int>(i)));
    }
    assign_layouts(graph_, node, layouts_);
    if (node.op == Op::transpose) transposes_.try_emplace({node.inputs[0], permutation_of(node)}, node.outputs[0]);
  }

  void place(Node& placement) {
    std::vector<bool> in_place;
    for (std::size_t i = 0; i < placement.inputs.size(); ++i) in_place.push_back(is_written_in_place(placement, i));
    for (std::size_t i = 0; i < placement.inputs.size(); ++i) {
      if (!in_place[i]) placement.inputs[i] = own_copy(placement.inputs[i]);
      keep_to_itself(placement.inputs[i]);
    }
  }

  // Finds the place of each placement's result within another tensor.
  void find_places() {
    const std::vector<NodeId> nodes = nodes_of(graph_);
    for (const NodeId id : std::views::reverse(nodes)) {
      const Node& node = graph_.node(id);
      if (node.op != Op::concat) continue;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const std::optional<PlacedValue> placed = placed_operand(graph_, node, i, place_of(node));
        if (placed && graph_.producer_node(placed->value).op == Op::concat) places_[placed->value] = placed->layout;
      }
    }
  }

  ValueLayout place_of(const Node& placement) const {
    const Value result = placement.outputs[0];
    const auto found = places_.find(result);
    return found != places_.end() ? found->second : ValueLayout{result, 0, dense_layout(graph_.type(result))};
  }

  bool is_written_in_place(const Node& placement, std::size_t index) const {
    const Value operand = placement.inputs[index];
    if (!can_be_placed(graph_, operand, [&](Value value) { return has_one_reader(value); })) return false;
    const std::optional<PlacedValue> placed = placed_operand(graph_, placement, index, place_of(placement));
    if (!placed) return false;
    const Node& producer = graph_.producer_node(placed->value);
    if (producer.op == Op::concat) return true;
    if (placed->layout.layout.is_dense() &&
        (!is_of_product(producer, placed->value) || satisfies(placed->layout, OperandLayout::batched_matrix))) {
      return true;
    }
    return satisfies(placed->layout, OperandLayout::aligned_rows) && target_.writes_strided != nullptr &&
           target_.writes_strided(graph_, producer);
  }

  // Whether a product, perhaps with an epilogue, writes the value: products write only aligned matrices.
  bool is_of_product(const Node& producer, Value value) const {
    if (op_class(producer.op) == OpClass::contraction) return true;
    return producer.body != nullptr && graph_.type(value).shape.rank() >= 2 &&
           has_op_of(producer.body->graph, OpClass::contraction);
  }

  bool has_one_reader(Value value) const {
    return value.id < values_before_ ? readers_.is_read_once(graph_, value) : !shared_copies_.contains(value);
  }

  // Keeps later readers from the copy behind an operand that is written in place.
  void keep_to_itself(Value operand) {
    const Value root = view_root(graph_, operand);
    const Node& producer = graph_.producer_node(root);
    if (producer.op != Op::copy) return;
    const std::size_t copied = producer.inputs[0].id;
    if (copied < copies_.size() && copies_[copied] == root) copies_[copied] = Value{};
  }

  // A copy that nothing else reads.
  Value own_copy(Value value) {
    changed_ = true;
    const Value made = rewriter_.copy(value);
    assign_layouts(graph_, graph_.producer_node(made), layouts_);
    return made;
  }

  Value with_layout(Value value, OperandLayout required) {
    if (satisfies(layouts_[value.id], required)) return value;
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
    if (copies_[value.id].valid()) {
      shared_copies_.insert(copies_[value.id]);
      return copies_[value.id];
    }
    const Value made = own_copy(value);
    copies_.resize(graph_.value_count());
    copies_[value.id] = made;
    return made;
  }

  Graph& graph_;
  Readers readers_;  // before any copy was inserted
  std::size_t values_before_ = graph_.value_count();
  Rewriter rewriter_;
  const PassTarget& target_;
  std::map<Value, ValueLayout> places_;  // of placements within others
  std::vector<ValueLayout> layouts_;
  std::vector<Value> copies_;  // by the copied value
  std::set<Value> shared_copies_;
  std::map<std::pair<Value, Permutation>, Value> transposes_;  // by operand and permutation
  bool changed_ = false;
};

}  // namespace

bool insert_copies(Graph& graph, const PassOptions& options) { return CopyInserter(graph, options.target).run(); }

}  // namespace ridgepoint
