// Passes that choose how results lie in memory. They look at each result alone, as insert_copies will see it.
#include <algorithm>
#include <utility>

#include "ir/queries.h"
#include "ops/layout.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

// The properties of a value that decide its layout.
class ResultLayouts {
 public:
  ResultLayouts(Graph& graph, const PassTarget& target)
      : graph_(graph), target_(target), readers_(graph), is_output_(graph.value_count()) {
    for (const Output& output : graph.outputs()) is_output_[output.value.id] = true;
  }

 protected:
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

  Graph& graph_;
  const PassTarget& target_;
  Readers readers_;

 private:
  bool is_taken(const Node& reader, Value value, const ValueLayout& layout) const {
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      if (reader.inputs[i] != value) continue;
      if (!satisfies(layout, target_.operand_layout(graph_, reader, static_cast<int>(i)))) return false;
    }
    return true;
  }

  std::vector<bool> is_output_;  // by value
};

class ResultPlacer : ResultLayouts {
 public:
  using ResultLayouts::ResultLayouts;

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
  // The order with the fewest copied elements; nullopt if the order of the shape is as good.
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
};

class RowPadder : ResultLayouts {
 public:
  using ResultLayouts::ResultLayouts;

  bool run() {
    bool changed = false;
    for (const NodeId id : graph_.order()) {
      if (!launches(graph_.node(id).op)) continue;
      for (std::size_t i = 0; i < graph_.node(id).outputs.size(); ++i)
        changed |= set_result_row(graph_.node(id), i, row_of(graph_.node(id), i));
    }
    return changed;
  }

 private:
  std::optional<std::int64_t> row_of(const Node& node, std::size_t index) const {
    const Value value = node.outputs[index];
    const TensorType& type = graph_.type(value);
    if (type.shape.rank() != 2 || readers_.is_result(value) || result_order(node, index, 2)) return std::nullopt;
    const std::optional<std::int64_t> row = padded_row(type);
    if (!row || !is_of_products(node, value) || is_placed(value)) return std::nullopt;
    if (target_.pads_rows == nullptr || !target_.pads_rows(graph_, node)) return std::nullopt;
    const std::int64_t copied = copied_elements({value, 0, layout_with_rows(type, *row)});
    return copied <= copied_elements({value, 0, dense_layout(type)}) ? row : std::nullopt;
  }

  // Whether a product makes or reads the value, or the kernel that makes it reads a value of this shape with padded
  // rows, whose storage the result may take over.
  bool is_of_products(const Node& node, Value value) const {
    const auto is_padded = [&](Value operand) {
      const TensorType& type = graph_.type(operand);
      return type == graph_.type(value) && storage_type(graph_, operand) != type;
    };
    return has_product(node) || reads(value, has_product) || std::ranges::any_of(node.inputs, is_padded);
  }

  // Whether the storage of the value lies within another.
  bool is_placed(Value value) const {
    return reads(value, [](const Node& reader) { return op_class(reader.op) == OpClass::placement; });
  }

  static bool has_product(const Node& node) {
    return op_class(node.op) == OpClass::contraction ||
           (node.body != nullptr && has_op_of(node.body->graph, OpClass::contraction));
  }

  // Whether such a node reads the value, directly or through views.
  template <typename IsSuch>
  bool reads(Value value, const IsSuch& is_such) const {
    return std::ranges::any_of(readers_.of(value), [&](NodeId id) {
      const Node& reader = graph_.node(id);
      if (op_class(reader.op) != OpClass::view) return is_such(reader);
      return std::ranges::any_of(reader.outputs, [&](Value view) { return reads(view, is_such); });
    });
  }
};

}  // namespace

// Stores a result in the order of dimensions that its readers need, if that saves copies and the kernel can write this
// order. For example, the output of attention [B,H,S,D] is transposed and reshaped to [T,H D] for the next product, so
// it is written as [B,S,H,D].
bool place_results(Graph& graph, const PassOptions& options) { return ResultPlacer(graph, options.target).run(); }

// Pads the rows of a matrix, if a product makes or reads it and dense rows would not begin at multiples of 16 bytes:
// logits [T,50257] in bf16. Libraries and the copy engines of GPUs are fast only for aligned matrices. Values, shapes,
// inputs and outputs stay as they are; the storage grows by the padding, which nothing reads.
bool pad_rows(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && RowPadder(graph, options.target).run();
}

}  // namespace ridgepoint
