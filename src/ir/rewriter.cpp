#include "ir/rewriter.h"

#include <algorithm>

#include "ir/queries.h"

namespace ridgepoint {

NodeId next_node(const Graph& graph) { return {static_cast<std::uint32_t>(graph.node_capacity())}; }

GraphSettings::~GraphSettings() {
  graph_.set_phase(phase_);
  graph_.set_scope(scope_);
}

void set_origin(Graph& graph, NodeId first, Op composite) {
  for (NodeId id = first; id < next_node(graph); ++id.id) {
    Node& node = graph.node(id);
    if (!node.origin) node.origin = composite;
  }
}

Node& copy_node(Graph& graph, const Graph& of, const Node& node, std::span<const Value> operands) {
  std::vector<TensorType> types;
  for (const Value value : node.outputs) types.push_back(of.type(value));
  Node& made = graph.node(graph.add_node(node.op, operands, types, node.attributes));
  made.origin = node.origin;
  made.body = node.body;
  if (&graph == &of) made.source = node.source;
  return made;
}

bool erase_unused(Graph& graph, const std::function<bool(const Node&)>& may_be_erased) {
  std::vector<bool> is_used = results_of(graph);
  for (const Update& update : graph.updates()) is_used[update.input.id] = true;
  std::vector<NodeId> unused;
  const std::vector<NodeId> order = nodes_of(graph);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Node& node = graph.node(*at);
    const bool is_needed =
        !may_be_erased(node) || std::ranges::any_of(node.outputs, [&](Value value) { return is_used[value.id]; });
    if (!is_needed) {
      unused.push_back(*at);
    } else {
      for (const Value value : node.inputs) is_used[value.id] = true;
    }
  }
  graph.erase(unused);
  return !unused.empty();
}

std::vector<NodeId> nodes_of(const Graph& graph) { return {graph.order().begin(), graph.order().end()}; }

Rewriter::~Rewriter() {
  set_source_and_origin();
  graph_.set_insertion_at_end();
}

void Rewriter::insert_before(NodeId node) { insert_before(node, graph_.scope_name(graph_.node(node))); }

void Rewriter::insert_before(NodeId node, std::string_view scope) {
  take_properties_of(node, scope);
  graph_.set_insertion_before(node);
}

void Rewriter::insert_at_end(NodeId node) {
  take_properties_of(node, graph_.scope_name(graph_.node(node)));
  graph_.set_insertion_at_end();
}

void Rewriter::take_properties_of(NodeId node, std::string_view scope) {
  set_source_and_origin();
  replaced_ = node;
  graph_.set_phase(graph_.node(node).phase);
  if (graph_.scope() != scope) graph_.set_scope(scope);
}

void Rewriter::set_source_and_origin() {
  const NodeId first = std::exchange(first_new_, next_node(graph_));
  if (!replaced_.valid() || first == first_new_) return;
  const Node& replaced = graph_.node(replaced_);
  for (NodeId id = first; id < first_new_; ++id.id) graph_.node(id).source = replaced.source;
  if (replaced.origin) set_origin(graph_, first, *replaced.origin);
}

void Rewriter::erase_inserted() {
  std::vector<NodeId> made;
  for (NodeId id = first_new_; id < next_node(graph_); ++id.id) made.push_back(id);
  graph_.erase(made);
}

Value Rewriter::copy(Value value) {
  const TensorType types[] = {graph_.type(value)};
  const Value operands[] = {value};
  return graph_.node(graph_.add_node(Op::copy, operands, types)).outputs[0];
}

Value Rewriter::rebuild_view(Value of, Value operand) {
  const Node& view = graph_.producer_node(of);
  std::vector<TensorType> types;
  for (const Value value : view.outputs) types.push_back({graph_.type(operand).dtype, graph_.type(value).shape});
  const Value operands[] = {operand};
  Node& made = graph_.node(graph_.add_node(view.op, operands, types, view.attributes));
  made.phase = view.phase;
  made.scope = view.scope;
  return made.outputs[static_cast<std::size_t>(std::ranges::find(view.outputs, of) - view.outputs.begin())];
}

void Rewriter::replace(NodeId before, std::span<const Value> after) {
  const std::vector<Value>& results = graph_.node(before).outputs;
  for (std::size_t i = 0; i < results.size(); ++i) replace(results[i], after[i]);
  remove(before);
}

void Rewriter::replace_by_new(Value before, Value made) {
  graph_.set_type(made, graph_.type(before));
  replace(before, made);
}

void Rewriter::replace_by_new(NodeId before, std::span<const Value> made) {
  const std::vector<Value>& results = graph_.node(before).outputs;
  for (std::size_t i = 0; i < results.size(); ++i) replace_by_new(results[i], made[i]);
  remove(before);
}

void Rewriter::remove(NodeId node) {
  removed_.push_back(node);
  if (is_removed_.size() <= node.id) is_removed_.resize(graph_.node_capacity());
  is_removed_[node.id] = true;
}

bool Rewriter::finish() {
  const bool changes = !replacements_.empty() || !removed_.empty();
  if (!replacements_.empty()) graph_.replace_uses(replacements_);
  graph_.erase(removed_);
  replacements_.clear();
  removed_.clear();
  is_removed_.clear();
  return changes;
}

}  // namespace ridgepoint
