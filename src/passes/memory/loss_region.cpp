#include "passes/memory/loss_region.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/permutation.h"
#include "ir/queries.h"

namespace ridgepoint {
namespace {

class RegionFinder {
 public:
  RegionFinder(const Graph& graph, NodeId loss) : graph_(graph), readers_(graph) { region_.loss = loss; }

  std::optional<LossRegion> run() {
    const std::optional<NodeId> product = product_behind(graph_.node(region_.loss).inputs[0]);
    if (!product) return std::nullopt;
    region_.logits = graph_.node(*product).outputs[0];
    region_.rows = graph_.type(region_.logits).shape[0];
    const std::span<const NodeId> order = graph_.order();
    for (auto at = std::ranges::find(order, *product); at != order.end(); ++at) {
      const Node& node = graph_.node(*at);
      if (*at != *product && std::ranges::none_of(node.inputs, [&](Value v) { return is_wide(v); })) {
        note_dependence(node);
      } else if (!add(*at, node)) {
        return std::nullopt;
      }
    }
    if (!has_derivative_) return std::nullopt;
    find_needed(order);
    return std::move(region_);
  }

 private:
  // The product whose result, after elementwise ops alone, is the value.
  std::optional<NodeId> product_behind(Value value) const {
    const Shape& shape = graph_.type(value).shape;
    for (;;) {
      const Node& node = graph_.producer_node(value);
      if (node.op == Op::matmul) return graph_.producer(value);
      if (op_class(node.op) != OpClass::elementwise) return std::nullopt;
      const auto has_shape = [&](Value operand) { return graph_.type(operand).shape == shape; };
      if (std::ranges::count_if(node.inputs, has_shape) != 1) return std::nullopt;
      value = *std::ranges::find_if(node.inputs, has_shape);
    }
  }

  // Whether the value has the shape of the logits or its transpose.
  bool is_wide(Value value) const { return row_axis_.contains(value); }
  bool is_inside(Value value) const { return is_wide(value) || rows_.contains(value); }

  // Values outside the region that depend on it.
  void note_dependence(const Node& node) {
    const auto depends = [&](Value v) { return dependent_.contains(v) || rows_.contains(v); };
    if (std::ranges::any_of(node.inputs, depends)) dependent_.insert(node.outputs.begin(), node.outputs.end());
  }

  bool add(NodeId id, const Node& node) {
    LossNode added{id, {}};
    const bool is_known = node.op == Op::matmul      ? add_product(node, added)
                          : node.op == Op::transpose ? add_transpose(node, added)
                          : node.op == Op::cross_entropy || node.op == Op::cross_entropy_backward
                              ? add_loss(id, node, added)
                              : add_elementwise(node, added);
    if (!is_known) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (added.reads[i] != ChunkRead::chunk && dependent_.contains(node.inputs[i])) return false;
    }
    region_.nodes.push_back(std::move(added));
    return std::ranges::none_of(node.outputs, [&](Value v) { return is_wide(v) && readers_.is_result(v); });
  }

  bool add_product(const Node& node, LossNode& added) {
    const Value a = node.inputs[0];
    const Value b = node.inputs[1];
    if (graph_.type(a).shape.rank() != 2 || (is_inside(a) && is_inside(b))) return false;
    if (node.outputs[0] == region_.logits) {
      added.reads = {ChunkRead::rows, ChunkRead::whole};
      row_axis_[node.outputs[0]] = 0;
      return true;
    }
    const Value wide = is_wide(a) ? a : b;
    added.sums_over_rows = is_wide(a) == (row_axis_.at(wide) == 1);
    if (added.sums_over_rows) {
      added.reads = is_wide(a) ? std::vector{ChunkRead::chunk, ChunkRead::rows}
                               : std::vector{ChunkRead::columns, ChunkRead::chunk};
      dependent_.insert(node.outputs[0]);
      return true;
    }
    added.reads = {ChunkRead::chunk, ChunkRead::whole};
    rows_.insert(node.outputs[0]);
    return is_wide(a);  // else the rows are the columns of the result
  }

  bool add_transpose(const Node& node, LossNode& added) {
    if (permutation_of(node) != Permutation{1, 0}) return false;
    added.reads = {ChunkRead::chunk};
    row_axis_[node.outputs[0]] = 1 - row_axis_.at(node.inputs[0]);
    return true;
  }

  bool add_loss(NodeId id, const Node& node, LossNode& added) {
    for (const Value value : node.inputs) added.reads.push_back(is_inside(value) ? ChunkRead::chunk : ChunkRead::rows);
    if (node.op == Op::cross_entropy) {
      rows_.insert(node.outputs.begin(), node.outputs.end());
      return id == region_.loss;
    }
    row_axis_[node.outputs[0]] = 0;
    has_derivative_ = true;
    return true;
  }

  bool add_elementwise(const Node& node, LossNode& added) {
    const Shape& shape = graph_.type(region_.logits).shape;
    if (op_class(node.op) != OpClass::elementwise || graph_.type(node.outputs[0]).shape != shape) return false;
    for (const Value value : node.inputs) {
      const Shape& operand = graph_.type(value).shape;
      const bool has_rows = operand.rank() == 2 && operand[0] == region_.rows;
      if (is_wide(value) && row_axis_.at(value) != 0) return false;
      added.reads.push_back(is_inside(value) ? ChunkRead::chunk : has_rows ? ChunkRead::rows : ChunkRead::whole);
    }
    row_axis_[node.outputs[0]] = 0;
    return true;
  }

  void find_needed(std::span<const NodeId> order) {
    std::set<NodeId> needed;
    const auto after_loss = std::ranges::find(order, region_.loss) + 1;
    for (auto at = order.end(); at != after_loss;) {
      const NodeId id = *--at;
      const auto found = std::ranges::find(region_.nodes, id, &LossNode::id);
      if (found == region_.nodes.end() && !needed.contains(id)) continue;
      if (found == region_.nodes.end()) region_.needed.insert(region_.needed.begin(), id);
      const Node& node = graph_.node(id);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const bool is_chunk = found != region_.nodes.end() && found->reads[i] == ChunkRead::chunk;
        if (!is_chunk) needed.insert(graph_.producer(node.inputs[i]));
      }
    }
  }

  const Graph& graph_;
  Readers readers_;
  LossRegion region_;
  std::map<Value, int> row_axis_;  // of values of the shape of the logits, and of their transposes
  std::set<Value> rows_;           // other values of the region: one for each row, or a row of another length
  std::set<Value> dependent_;
  bool has_derivative_ = false;
};

}  // namespace

std::optional<LossRegion> find_loss_region(const Graph& graph, NodeId cross_entropy) {
  return RegionFinder(graph, cross_entropy).run();
}

}  // namespace ridgepoint
