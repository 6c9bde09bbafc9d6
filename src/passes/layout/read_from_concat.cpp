// Lets the other readers of a concat's operand read that part of the result instead. Then concat is the operand's only
// reader, and a kernel can write the operand directly into the result. For example, the gradients of queries, keys and
// values lie side by side for the next product, and the sums for the bias gradients read them there: attention backward
// writes them in place, without copies.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "passes/node_rewriter.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class ConcatReader : NodeRewriter {
 public:
  ConcatReader(Graph& graph, const PassTarget& target) : NodeRewriter(graph, target), position_(positions(graph)) {}

  bool run() {
    return rewrite(Op::concat, [this](NodeId id) { visit(id); });
  }

 private:
  // Nodes that this pass made come last.
  std::size_t position_of(NodeId id) const { return id.id < position_.size() ? position_[id.id] : SIZE_MAX; }

  void visit(NodeId concat_id) {
    const Node node = graph_.node(concat_id);
    std::vector<NodeId> others;  // the other readers of the operands
    for (const Value operand : node.inputs) {
      if (std::ranges::count(node.inputs, operand) > 1 || readers_.is_result(operand)) return;
      std::ranges::copy_if(readers_.of(operand), std::back_inserter(others),
                           [&](NodeId id) { return id != concat_id; });
    }
    if (others.empty()) return;
    others.push_back(concat_id);  // whose readers may come before the other ones
    const NodeId first = *std::ranges::min_element(others, {}, [&](NodeId id) { return position_of(id); });
    for (const Value operand : node.inputs) {
      if (!can_be_written_in_place(operand, first)) return;
      for (const NodeId id : readers_.of(operand)) {
        if (id != concat_id && !reads_any_layout(graph_.node(id), operand, node.phase)) return;
      }
    }
    replace(concat_id, first);
  }

  // Whether a kernel that can write anywhere makes the operand, or the tensor that it is a view of, before `place`, and
  // nothing else reads the views between.
  bool can_be_written_in_place(Value operand, NodeId place) const {
    Value value = operand;
    while (op_class(graph_.producer_node(value).op) == OpClass::view) {
      const Node& view = graph_.producer_node(value);
      if (view.op != Op::reshape && view.op != Op::transpose) return false;
      value = view.inputs[0];
      if (!is_read_once(value)) return false;
    }
    const Node& maker = graph_.producer_node(value);
    const std::size_t made_at = position_of(graph_.producer(value));
    return launches(maker.op) && made_at < position_of(place) && target_.writes_strided &&
           target_.writes_strided(graph_, maker);
  }

  bool reads_any_layout(const Node& reader, Value operand, Phase phase) const {
    if (!launches(reader.op) || reader.phase != phase) return false;
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      if (reader.inputs[i] == operand &&
          target_.operand_layout(graph_, reader, static_cast<int>(i)) != OperandLayout::any)
        return false;
    }
    return true;
  }

  // Moves concat, and the views that it reads, before `place`, and splits it there.
  void replace(NodeId concat_id, NodeId place) {
    const Node node = graph_.node(concat_id);
    const int axis =
        normalise_axis(node.attributes.get<std::int64_t>("axis"), graph_.type(node.outputs[0]).shape.rank());
    rewriter_.insert_before(place, graph_.scope_name(node));
    std::vector<Value> operands;
    std::vector<std::int64_t> sizes;
    for (const Value operand : node.inputs) {
      operands.push_back(again(operand));
      sizes.push_back(graph_.type(operand).shape[axis]);
    }
    const Value made = concat(graph_, operands, axis);
    const std::vector<Value> parts = split(graph_, made, axis, sizes);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      graph_.set_type(parts[i], graph_.type(node.inputs[i]));
      for (const NodeId id : readers_.of(node.inputs[i])) {
        if (id != concat_id) std::ranges::replace(graph_.node(id).inputs, node.inputs[i], parts[i]);
      }
    }
    rewriter_.replace_by_new(concat_id, {&made, 1});
  }

  // A second copy of the views that make the value.
  Value again(Value value) {
    const NodeId id = graph_.producer(value);
    if (op_class(graph_.node(id).op) != OpClass::view) return value;
    rewriter_.remove(id);
    const Value operand = again(graph_.node(id).inputs[0]);
    const Value made = rewriter_.rebuild_view(value, operand);
    graph_.set_type(made, graph_.type(value));
    return made;
  }

  const std::vector<std::size_t> position_;  // by node
};

}  // namespace

bool read_from_concat(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && ConcatReader(graph, options.target).run();
}

}  // namespace ridgepoint
