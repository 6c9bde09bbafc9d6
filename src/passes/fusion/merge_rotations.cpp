// Makes one rotary embedding of several whose operands are neighbouring parts of one product: q and k, which
// merge_products computed side by side, are rotated as heads of one tensor. Only before the attention op, whose kernels
// read the parts where they lie.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

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

}  // namespace

bool merge_rotations(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && RotationMerger(graph, options.target).run();
}

}  // namespace ridgepoint
