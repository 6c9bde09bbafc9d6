#include "passes/memory/update_order.h"

#include <algorithm>
#include <cstdint>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/collectives.h"
#include "ops/rules/optimizer/optimizer.h"

namespace ridgepoint {
namespace {

bool is_product_of_backward(const Node& node) {
  const KernelClass kind = traits(node.op == Op::fused ? node.origin.value_or(Op::fused) : node.op).kernel_class;
  return (kind == KernelClass::matmul || kind == KernelClass::attention) && node.phase != Phase::forward &&
         node.phase != Phase::loss;
}

bool is_sum(const Node& node) {
  return (node.op == Op::all_reduce || node.op == Op::reduce_scatter) && node.phase != Phase::optimizer;
}

// By position, when the results of a launch are there: after the launch. A sum of gradients over ranks runs beside the
// launches that follow; it has ended when the next sum begins, and the last sum after backward.
std::vector<std::size_t> ends_of_launches(const Graph& graph, std::span<const NodeId> nodes) {
  std::vector<std::size_t> ends(nodes.size());
  std::optional<std::size_t> next;  // the next sum, or the last launch
  std::size_t behind_bucket = 0;
  std::int64_t bucket = -1;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = graph.node(nodes[i]);
    ends[i] = i;
    if (!next && launches(node.op) && node.phase != Phase::optimizer) next = i;
    if (!is_sum(node)) continue;
    // A bucket may have two sums, one behind the other.
    const auto own = node.attributes.get<std::int64_t>("bucket");
    if (own != bucket) behind_bucket = *next;
    bucket = own;
    ends[i] = behind_bucket;
    next = i;
  }
  return ends;
}

}  // namespace

UpdateOrder::UpdateOrder(Graph& graph)
    : graph_(graph),
      nodes_(nodes_of(graph)),
      position_(positions(graph)),
      last_read_(graph.value_count()),
      ready_(graph.value_count()) {
  const std::vector<std::size_t> ends = ends_of_launches(graph, nodes_);
  for (const NodeId id : nodes_) {
    const Node& node = graph_.node(id);
    const bool counts = launches(node.op) && node.phase != Phase::optimizer;
    std::size_t ready = counts ? ends[position_[id.id]] : 0;
    for (const Value value : node.inputs) {
      ready = std::max(ready, ready_[value.id]);
      if (launches(node.op) && !optimizer_layout(node) && !is_gather_of(node, Gather::new_parameters))
        last_read_[view_root(graph_, value).id] = position_[id.id];
    }
    for (const Value value : node.outputs) ready_[value.id] = ready;
    if (counts && is_product_of_backward(node)) products_.push_back(position_[id.id]);
  }
  for (const Update& update : graph_.updates()) updated_by_[update.value] = update.input;
}

std::size_t UpdateOrder::ready(NodeId update) const {
  const Node& node = graph_.node(update);
  std::size_t ready = 0;
  for (const Value value : node.inputs) ready = std::max(ready, ready_[value.id]);
  for (const Value value : node.outputs) {
    if (const std::optional<Value> input = input_updated_by(value)) ready = std::max(ready, last_read(*input));
  }
  return ready;
}

std::optional<Value> UpdateOrder::input_updated_by(Value value) const {
  const auto found = updated_by_.find(value);
  return found == updated_by_.end() ? std::nullopt : std::optional(found->second);
}

void UpdateOrder::reorder(const std::map<std::size_t, std::vector<NodeId>>& behind, const std::vector<NodeId>& at_end) {
  is_placed_.assign(graph_.node_capacity(), false);
  order_.clear();
  std::vector<bool> is_moved(graph_.node_capacity());
  for (const auto& [position, nodes] : behind) {
    for (const NodeId id : nodes) is_moved[id.id] = true;
  }
  for (const NodeId id : at_end) is_moved[id.id] = true;
  for (const NodeId id : nodes_) {
    if (!is_moved[id.id]) place(id);
    const auto moved = behind.find(position_[id.id]);
    if (moved == behind.end()) continue;
    for (const NodeId node : moved->second) place(node);
  }
  for (const NodeId id : at_end) place(id);
  for (std::size_t i = order_.size() - 1; i > 0; --i) graph_.move_before(order_[i - 1], order_[i]);
}

void UpdateOrder::place(NodeId id) {
  if (is_placed_[id.id]) return;
  is_placed_[id.id] = true;
  for (const Value value : graph_.node(id).inputs) place(graph_.producer(value));
  order_.push_back(id);
}

}  // namespace ridgepoint
