// Stores a result in the order of dimensions in which its readers need it, where that saves copies and the kernel can
// write it so. The output of attention [B,H,S,D], which is transposed and reshaped to [T,H D] for the next product, is
// written as [B,S,H,D]. Changes the orders of results only; it looks at each result alone, as insert_copies
// will see it.
#include <algorithm>
#include <utility>

#include "ir/queries.h"
#include "ops/layout.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

class ResultPlacer {
 public:
  ResultPlacer(Graph& graph, const PassTarget& target)
      : graph_(graph), target_(target), readers_(graph), is_output_(graph.value_count()) {
    for (const Output& output : graph.outputs()) is_output_[output.value.id] = true;
  }

  bool run() {
    bool changed = false;
    for (const NodeId id : graph_.order()) {
      Node& node = graph_.node(id);
      if (!launches(node.op)) continue;
      const bool writes_strided = target_.writes_strided != nullptr && target_.writes_strided(graph_, node);
      const int rank = graph_.type(node.outputs[0]).shape.rank();
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const bool may_move = writes_strided && graph_.type(node.outputs[i]).shape.rank() == rank;
        changed |= set_result_order(node, i, may_move ? best_order(node.outputs[i]) : std::nullopt);
      }
    }
    return changed;
  }

 private:
  // The order with the fewest copied elements; nullopt where the order of the shape is as good.
  std::optional<Permutation> best_order(Value value) const {
    if (readers_.is_result(value)) return std::nullopt;  // outputs and updates are dense
    std::optional<Permutation> best;
    std::int64_t fewest = -1;
    for (const NodeId reader : readers_.of(value)) {
      const Node& view = graph_.node(reader);
      if (view.op != Op::transpose || permutation_of(view) == best) continue;
      if (fewest < 0) fewest = copied_elements({value, 0, dense_layout(graph_.type(value))});
      if (fewest == 0) return best;
      const ValueLayout placed{value, 0, layout_in_order(graph_.type(value), permutation_of(view))};
      if (!satisfies(placed, OperandLayout::aligned_rows)) continue;
      const std::int64_t copied = copied_elements(placed);
      if (copied >= fewest) continue;
      fewest = copied;
      best = permutation_of(view);
    }
    return best;
  }

  // The elements of the copies that insert_copies makes of a value in this layout and of its views.
  std::int64_t copied_elements(const ValueLayout& placed) const {
    std::int64_t elements = 0;
    std::vector<std::pair<Value, ValueLayout>> open = {{placed.root, placed}};
    while (!open.empty()) {
      const auto [value, layout] = std::move(open.back());
      open.pop_back();
      const ValueLayout dense{value, 0, dense_layout(graph_.type(value))};
      bool copied = is_output_[value.id] && !layout.layout.is_dense();
      for (const NodeId id : readers_.of(value)) {
        const Node& reader = graph_.node(id);
        if (op_class(reader.op) == OpClass::placement) continue;  // has a place for it
        if (op_class(reader.op) != OpClass::view) {
          copied |= !is_taken(reader, value, layout);
          continue;
        }
        std::vector<ValueLayout> views = view_layouts(graph_, reader, layout);
        copied |= views.empty();
        if (views.empty()) views = view_layouts(graph_, reader, dense);
        for (std::size_t i = 0; i < views.size(); ++i) open.emplace_back(reader.outputs[i], views[i]);
      }
      if (copied) elements += graph_.type(value).elements();
    }
    return elements;
  }

  bool is_taken(const Node& reader, Value value, const ValueLayout& layout) const {
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      if (reader.inputs[i] != value) continue;
      if (!satisfies(layout, target_.operand_layout(graph_, reader, static_cast<int>(i)))) return false;
    }
    return true;
  }

  Graph& graph_;
  const PassTarget& target_;
  Readers readers_;
  std::vector<bool> is_output_;  // by value
};

}  // namespace

bool place_results(Graph& graph, const PassOptions& options) { return ResultPlacer(graph, options.target).run(); }

}  // namespace ridgepoint
