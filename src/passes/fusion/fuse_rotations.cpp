// Passes that join rotary embeddings with each other and with the product or the attention beside them.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ir/permutation.h"
#include "ops/attention_form.h"
#include "ops/float8_product.h"
#include "passes/fusion/fused_body.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// rope(reshape(part)) of a part [T,H*D] of a split; the reshape is [...,H,D].
struct Rotation {
  NodeId reshape;
  NodeId rope;
};

class RotationMerger : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    return rewrite(Op::split, [this](NodeId id) {
      const Node& node = graph_.node(id);
      if (graph_.type(node.inputs[0]).shape.rank() != 2) return;
      if (normalise_axis(node.attributes.get<std::int64_t>("axis"), 2) == 1) visit(id);
    });
  }

 private:
  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    for (std::size_t begin = 0; begin < node.outputs.size();) {
      std::vector<Rotation> run;
      for (std::size_t i = begin; i < node.outputs.size(); ++i) {
        const std::optional<Rotation> rotation = find_rotation(node.outputs[i]);
        if (!rotation || (!run.empty() && !are_alike(run.front(), *rotation))) break;
        run.push_back(*rotation);
      }
      if (run.size() > 1) return merge(id, begin, run);
      begin += std::max<std::size_t>(run.size(), 1);
    }
  }

  bool is_read_by_attention(Value value) const {
    return std::ranges::all_of(readers_.of(value), [&](NodeId id) {
      const Node& reader = graph_.node(id);
      if (reader.op == Op::transpose) return is_read_by_attention(reader.outputs[0]);
      return reader.op == Op::attention || reader.op == Op::attention_backward;
    });
  }

  std::optional<Rotation> find_rotation(Value part) const {
    const std::optional<NodeId> reshape = readers_.only_reader(graph_, part, Op::reshape);
    if (!reshape) return std::nullopt;
    const Value heads = graph_.node(*reshape).outputs[0];
    const Shape& shape = graph_.type(heads).shape;
    const std::optional<NodeId> rope = readers_.only_reader(graph_, heads, Op::rope);
    if (!rope || graph_.node(*rope).inputs[0] != heads || shape.rank() < 3) return std::nullopt;
    const int axis = normalise_axis(graph_.node(*rope).attributes.get<std::int64_t>("axis"), shape.rank());
    const bool splits_heads = shape[-2] * shape[-1] == graph_.type(part).shape[1] && axis < shape.rank() - 2;
    const Value rotated = graph_.node(*rope).outputs[0];
    if (!splits_heads || readers_.is_result(rotated) || !is_read_by_attention(rotated)) return std::nullopt;
    return Rotation{*reshape, *rope};
  }

  // Whether the rotations differ in nothing but their operand and its number of heads.
  bool are_alike(const Rotation& a, const Rotation& b) const {
    const Node& first = graph_.node(a.rope);
    const Node& second = graph_.node(b.rope);
    const Shape& x = graph_.type(first.outputs[0]).shape;
    const Shape& y = graph_.type(second.outputs[0]).shape;
    if (first.attributes != second.attributes || first.phase != second.phase || x.rank() != y.rank()) return false;
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (axis != x.rank() - 2 && x[axis] != y[axis]) return false;
    }
    return first.inputs[1] == second.inputs[1] && first.inputs[2] == second.inputs[2];
  }

  void merge(NodeId split_id, std::size_t begin, const std::vector<Rotation>& run) {
    const Node whole = graph_.node(split_id);
    const Node first = graph_.node(run.front().rope);
    const Shape& shape = graph_.type(first.outputs[0]).shape;
    const int heads_axis = shape.rank() - 2;
    auto sizes = whole.attributes.get<std::vector<std::int64_t>>("sizes");
    std::vector<std::int64_t> heads;
    for (std::size_t i = 0; i < run.size(); ++i) {
      heads.push_back(graph_.type(graph_.node(run[i].rope).outputs[0]).shape[heads_axis]);
      if (i > 0) sizes[begin] += sizes[begin + i];
    }
    const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(begin);
    sizes.erase(at + 1, at + static_cast<std::ptrdiff_t>(run.size()));

    rewriter_.insert_before(split_id);
    const std::vector<Value> parts = split(graph_, whole.inputs[0], 1, sizes);
    for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
      const bool is_rotated = i >= begin && i < begin + run.size();
      if (!is_rotated) rewriter_.replace(whole.outputs[i], parts[i < begin ? i : i + 1 - run.size()]);
    }
    rewriter_.remove(split_id);
    rewriter_.insert_before(run.front().rope);
    const std::int64_t all_heads = std::accumulate(heads.begin(), heads.end(), std::int64_t{0});
    const Value operand = reshape(graph_, parts[begin], with_size(shape, heads_axis, all_heads));
    const Value rotated =
        rope(graph_, operand, first.inputs[1], first.inputs[2],
             static_cast<int>(first.attributes.get<std::int64_t>("axis")), first.attributes.get<bool>("inverse"));
    const std::vector<Value> results = split(graph_, rotated, heads_axis, heads);
    for (std::size_t i = 0; i < run.size(); ++i) {
      rewriter_.replace(run[i].rope, results[i]);
      rewriter_.remove(run[i].reshape);
    }
  }
};

// product -> (add a bias) -> (split) -> reshape -> rope: the first part of the columns, or all of them.
struct RotatedProduct {
  NodeId matmul, reshape, rope;
  std::optional<NodeId> add = {}, split = {};

  NodeId whole() const { return add.value_or(matmul); }  // of which the columns are
};

class RotationFuser : NodeFuser {
 public:
  RotationFuser(Graph& graph, const PassTarget& target) : NodeFuser(graph, target), readers_(graph) {}

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      if (graph_.node(id).op != Op::rope) continue;
      if (const std::optional<RotatedProduct> found = find(id)) try_to_fuse(*found);
    }
    return rewriter_.finish();
  }

 private:
  bool is_read_once(Value value) const { return readers_.is_read_once(graph_, value); }

  std::optional<RotatedProduct> find(NodeId rope) const {
    const Value heads = graph_.node(rope).inputs[0];
    const Node& reshape = graph_.producer_node(heads);
    if (reshape.op != Op::reshape || !is_read_once(heads) || !is_read_once(reshape.inputs[0])) return std::nullopt;
    RotatedProduct found{.matmul = graph_.producer(reshape.inputs[0]), .reshape = graph_.producer(heads), .rope = rope};
    if (graph_.node(found.matmul).op == Op::split) {
      const Node& split = graph_.node(found.matmul);
      const bool is_first = split.outputs[0] == reshape.inputs[0] && graph_.type(split.inputs[0]).shape.rank() == 2 &&
                            normalise_axis(split.attributes.get<std::int64_t>("axis"), 2) == 1;
      if (!is_first || !is_read_once(split.inputs[0])) return std::nullopt;
      found.split = found.matmul;
      found.matmul = graph_.producer(split.inputs[0]);
    }
    if (const Node& add = graph_.node(found.matmul); add.op == Op::add) {
      const Shape& shape = graph_.type(add.outputs[0]).shape;
      const bool adds_bias = shape.rank() == 2 && graph_.type(add.inputs[1]).shape == Shape{shape[1]} &&
                             graph_.type(add.inputs[0]) == graph_.type(add.outputs[0]) &&
                             graph_.type(add.inputs[1]).dtype == graph_.type(add.outputs[0]).dtype;
      if (!adds_bias || !is_read_once(add.inputs[0])) return std::nullopt;
      found.add = found.matmul;
      found.matmul = graph_.producer(add.inputs[0]);
    }
    const Node& matmul = graph_.node(found.matmul);
    const bool may_end = matmul.op == Op::matmul && matmul.phase == graph_.node(rope).phase &&
                         !float8_operands(matmul.attributes);  // becomes a product of codes, which has no epilogues
    const bool is_free = !is_read_before(graph_.node(found.whole()).outputs[0], rope);
    return may_end && is_free ? std::optional(found) : std::nullopt;
  }

  // The body of inputs x, w, cosines, sines and, where there is one, the bias; its result has the product's type.
  std::shared_ptr<const FusedBody> body_of(const RotatedProduct& found, const std::vector<Value>& operands) const {
    Graph body;
    body.name = "fused_matmul_rope";
    std::vector<Value> inputs;
    for (const Value value : operands)
      inputs.push_back(input(body, std::to_string(inputs.size()), graph_.type(value), Role::data));
    const auto add = [&](NodeId id, const std::vector<Value>& of) {
      Node& made = copy_node(body, graph_, graph_.node(id), of);
      made.origin = {};
      return made.outputs;
    };
    std::vector<Value> whole = add(found.matmul, {inputs[0], inputs[1]});
    if (found.add) whole = add(*found.add, {whole[0], inputs[4]});
    std::vector<Value> parts = found.split ? add(*found.split, whole) : whole;
    const Value rotated = add(found.rope, {add(found.reshape, {parts[0]})[0], inputs[2], inputs[3]})[0];
    parts[0] = reshape(body, rotated, body.type(parts[0]).shape);
    body.add_output("0", found.split ? concat(body, parts, 1) : parts[0]);
    return std::make_shared<const FusedBody>(std::move(body));
  }

  void try_to_fuse(const RotatedProduct& found) {
    const Node matmul = graph_.node(found.matmul);
    const Node rope = graph_.node(found.rope);
    const Node whole = graph_.node(found.whole());
    Fusion fusion{{matmul.inputs[0], matmul.inputs[1], rope.inputs[1], rope.inputs[2]}, whole.outputs, nullptr};
    if (found.add) fusion.inputs.push_back(whole.inputs[1]);
    fusion.body = body_of(found, fusion.inputs);
    if (!has_kernel(fusion)) return;
    Node& made = insert(fusion, found.rope, found.matmul);
    made.origin = Op::matmul;
    graph_.set_type(made.outputs[0], graph_.type(whole.outputs[0]));  // with its labels
    rewriter_.replace(rope.outputs[0], rope.inputs[0]);
    rewriter_.remove(found.rope);
    if (found.add) rewriter_.remove(*found.add);
    rewriter_.remove(found.matmul);
  }

  Readers readers_;
};

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

// Merges rotary embeddings of neighbouring parts of one product: q and k, which merge_products computed side by side,
// are rotated as heads of one tensor. The pass needs the attention op, whose kernels read the parts in place.
bool merge_rotations(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && RotationMerger(graph, options.target).run();
}

// Fuses the product of queries, keys and values with the rotary embedding of queries and keys, if the target has a
// kernel for both. The rotated heads take the place of the product's columns, so they are written once.
// fuse_into_products would write the product as well, because attention reads the values from it.
//
// The new node stands where the rotation stood, so nothing else may read the product before.
bool rotate_in_products(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && RotationFuser(graph, options.target).run();
}

// Backward rotates the gradients of q and k back. If the device's attention backward can rotate them as it writes them,
// it reads the tables of cosines and sines, and one pass over memory is saved.
// The gradients of q and k reach their rotations through transposes, perhaps side by side in one tensor
//(merge_rotations). If only a part of a head is rotated, the rest is split off before and joined again after.
bool rotate_in_attention(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && GradientRotator(graph, options.target).run();
}

}  // namespace ridgepoint
