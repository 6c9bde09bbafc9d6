// Rotary embedding rotates the gradients of q and k back. Where the device's backward of attention can do that as it
// writes them, it takes the tables, and a pass over memory goes.
//
// The gradients of q and k reach their rotations through transposes, perhaps side by side in one tensor
// (merge_rotations). Where heads are rotated in part, the other elements are split off before and put back after.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "ir/permutation.h"
#include "ops/attention_form.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

class GradientRotator : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    return rewrite(Op::attention_backward, [this](NodeId id) {
      if (!has_rotary_tables(graph_.node(id))) visit(id);
    });
  }

 private:
  // `after` is `before` rotated by `rope`. `joined` is the concat on the way to it, of which this is operand `part`.
  struct Rotation {
    NodeId rope;
    Value before, after;
    std::optional<NodeId> joined;
    Value part;
  };

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    const std::optional<Rotation> q = rotation_of(node.outputs[0]), k = rotation_of(node.outputs[1]);
    if (!q || !k || q->joined != k->joined) return;
    const Node& first = graph_.node(q->rope);
    const Node& second = graph_.node(k->rope);
    if (first.inputs[1] != second.inputs[1] || first.inputs[2] != second.inputs[2]) return;
    if (q->joined && !joins_only(*q, *k)) return;
    for (const std::size_t table : {1, 2}) {
      if (position_[graph_.producer(first.inputs[table]).id] > position_[id.id]) return;
    }
    Node rotating = node;
    rotating.inputs.insert(rotating.inputs.end(), {first.inputs[1], first.inputs[2]});
    if (target_.has_kernel(graph_, rotating)) replace(id, rotating.inputs, *q, *k);
  }

  std::optional<NodeId> only_reader(Value value) const {
    return is_read_once(value) ? std::optional(readers_.of(value)[0]) : std::nullopt;
  }

  std::optional<Rotation> rotation_of(Value value) const {
    const int rank = graph_.type(value).shape.rank();
    int positions = rank - 2;
    Rotation found;
    for (;;) {
      const std::optional<NodeId> reader = only_reader(value);
      if (!reader) return std::nullopt;
      const Node& node = graph_.node(*reader);
      if (node.op == Op::transpose) {
        const Permutation permutation = permutation_of(node);
        if (permutation.back() != rank - 1) return std::nullopt;
        positions = static_cast<int>(std::ranges::find(permutation, positions) - permutation.begin());
      } else if (node.op == Op::concat && !found.joined && is_beside(node, positions)) {
        found.joined = *reader;
        found.part = value;
      } else {
        return is_end(*reader, value, positions, found) ? std::optional(found) : std::nullopt;
      }
      value = node.outputs[0];
    }
  }

  // Whether a concat puts whole rows of all positions side by side.
  bool is_beside(const Node& node, int positions) const {
    const int rank = graph_.type(node.outputs[0]).shape.rank();
    const int axis = normalise_axis(node.attributes.get<std::int64_t>("axis"), rank);
    return axis != positions && axis != rank - 1;
  }

  bool is_end(NodeId reader, Value value, int positions, Rotation& found) const {
    const Node& node = graph_.node(reader);
    found.before = value;
    if (node.op == Op::rope) {
      found.rope = reader;
      found.after = node.outputs[0];
      return turns_back(node, value, positions);
    }
    return node.op == Op::split && is_partial(node, positions, found);
  }

  bool turns_back(const Node& rope, Value value, int positions) const {
    const int rank = graph_.type(value).shape.rank();
    return rope.inputs[0] == value && rope.attributes.get<bool>("inverse") &&
           normalise_axis(rope.attributes.get<std::int64_t>("axis"), rank) == positions;
  }

  // concat(rope(first part), second part) of a split of the last axis.
  bool is_partial(const Node& split, int positions, Rotation& found) const {
    const int rank = graph_.type(split.inputs[0]).shape.rank();
    if (split.outputs.size() != 2 || !is_of_last_axis(split, rank)) return false;
    const std::optional<NodeId> rope = only_reader(split.outputs[0]), whole = only_reader(split.outputs[1]);
    if (!rope || !whole || graph_.node(*rope).op != Op::rope || graph_.node(*whole).op != Op::concat) return false;
    const Node& turned = graph_.node(*rope);
    const Node& joined = graph_.node(*whole);
    if (!turns_back(turned, split.outputs[0], positions) || only_reader(turned.outputs[0]) != whole) return false;
    if (!is_of_last_axis(joined, rank) || joined.inputs != std::vector{turned.outputs[0], split.outputs[1]})
      return false;
    found.rope = *rope;
    found.after = joined.outputs[0];
    return true;
  }

  static bool is_of_last_axis(const Node& node, int rank) {
    return normalise_axis(node.attributes.get<std::int64_t>("axis"), rank) == rank - 1;
  }

  // Whether the concat on the way has no other operands.
  bool joins_only(const Rotation& q, const Rotation& k) const {
    return std::ranges::all_of(graph_.node(*q.joined).inputs,
                               [&](Value part) { return part == q.part || part == k.part; });
  }

  void replace(NodeId id, const std::vector<Value>& operands, const Rotation& q, const Rotation& k) {
    const Node before = graph_.node(id);
    rewriter_.insert_before(id);
    const std::vector<Value> made =
        graph_.node(make_node(graph_, Op::attention_backward, operands, before.attributes)).outputs;
    rewriter_.replace_by_new(id, made);
    const auto result_of = [&](Value value) {
      const auto at = std::ranges::find(before.outputs, value);
      return at == before.outputs.end() ? value : made[static_cast<std::size_t>(at - before.outputs.begin())];
    };
    for (const Rotation* rotation : {&q, &k}) {
      if (rewriter_.is_removed(rotation->rope)) continue;  // both are rotated together
      rewriter_.replace(rotation->after, result_of(rotation->before));
      const Value rotated = graph_.node(rotation->rope).inputs[0];
      if (rotated != rotation->before) {
        rewriter_.remove(graph_.producer(rotated));
        rewriter_.remove(graph_.producer(rotation->after));
      }
      rewriter_.remove(rotation->rope);
    }
  }

  const std::vector<std::size_t> position_ = positions(graph_);  // by node
};

}  // namespace

bool rotate_in_attention(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && GradientRotator(graph, options.target).run();
}

}  // namespace ridgepoint
