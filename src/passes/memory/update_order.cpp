#include "passes/memory/update_order.h"

#include <algorithm>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/rules/optimizer/optimizer.h"

namespace ridgepoint {
namespace {

bool is_product_of_backward(const Node& node) {
  const KernelClass kind = traits(node.op == Op::fused ? node.origin.value_or(Op::fused) : node.op).kernel_class;
  return (kind == KernelClass::matmul || kind == KernelClass::attention) && node.phase != Phase::forward &&
         node.phase != Phase::loss;
}

}  // namespace

UpdateOrder::UpdateOrder(Graph& graph)
    : graph_(graph),
      nodes_(nodes_of(graph)),
      position_(positions(graph)),
      last_read_(graph.value_count()),
      ready_(graph.value_count()) {
  for (const NodeId id : nodes_) {
    const Node& node = graph_.node(id);
    const bool counts = launches(node.op) && node.phase != Phase::optimizer;
    std::size_t ready = counts ? position_[id.id] : 0;
    for (const Value value : node.inputs) {
      ready = std::max(ready, ready_[value.id]);
      if (launches(node.op) && !optimizer_layout(node)) last_read_[view_root(graph_, value).id] = position_[id.id];
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
    if (const std::optional<Value> input = input_updated_by(value)) ready = std::max(ready, last_read_[input->id]);
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
