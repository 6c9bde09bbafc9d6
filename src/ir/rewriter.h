// Helpers of passes that rewrite a graph: they insert nodes with the phase, scope and source of the node that these
// replace, and replace values and remove nodes in one walk at the end.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Restores the phase and the scope of the graph on destruction.
class GraphSettings {
 public:
  explicit GraphSettings(Graph& graph) : graph_(graph), phase_(graph.phase()), scope_(graph.scope()) {}
  ~GraphSettings();
  GraphSettings(const GraphSettings&) = delete;
  GraphSettings& operator=(const GraphSettings&) = delete;

 private:
  Graph& graph_;
  Phase phase_;
  std::string scope_;
};

// The id that the next new node will get.
NodeId next_node(const Graph& graph);

// Sets the origin of the nodes from `first` on that have none.
void set_origin(Graph& graph, NodeId first, Op composite);

// A copy of graph.order(), for a walk that inserts and removes nodes.
std::vector<NodeId> nodes_of(const Graph& graph);

// Inserts a node with other operands, and otherwise the types, attributes, origin and body of `node`, which is of the
// graph `of`; within one graph also with its source.
Node& copy_node(Graph& graph, const Graph& of, const Node& node, std::span<const Value> operands);

// Erases the nodes that `may_be_erased` names and of which no node that stays, no output and no update needs a result.
// Inputs are nodes too. Returns whether it erased any.
bool erase_unused(Graph& graph, const std::function<bool(const Node&)>& may_be_erased);

// One rewriting of a graph. Replacements and removals take effect in finish(). The destructor restores the graph's
// phase and scope and moves the insertion point to the end.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph), settings_(graph) {}
  ~Rewriter();
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  // New nodes go before `node` and take its phase, its scope (or `scope`), its source and, where they have none, its
  // origin.
  void insert_before(NodeId node);
  void insert_before(NodeId node, std::string_view scope);
  // New nodes go to the end of the graph and take the same properties of `node`.
  void insert_at_end(NodeId node);
  // Removes the nodes inserted since the last call of insert_before() or insert_at_end().
  void erase_inserted();

  // A copy of the value, with its labels.
  Value copy(Value value);
  // Applies the view that makes `of` to another operand of the same shape. The new node has the phase and scope of the
  // view.
  Value rebuild_view(Value of, Value operand);

  void replace(Value before, Value after) { replacements_.emplace_back(before, after); }
  // Replaces every result of a node and removes the node.
  void replace(NodeId before, std::span<const Value> after);
  void replace(NodeId before, Value after) { replace(before, {&after, 1}); }
  // The same by new values of the same types, which get the labels of the values before.
  void replace_by_new(Value before, Value made);
  void replace_by_new(NodeId before, std::span<const Value> made);
  void remove(NodeId node);
  bool is_removed(NodeId node) const { return node.id < is_removed_.size() && is_removed_[node.id]; }

  // Replaces the values and erases the nodes. Returns whether there were any.
  bool finish();

 private:
  void take_properties_of(NodeId node, std::string_view scope);
  void set_source_and_origin();

  Graph& graph_;
  GraphSettings settings_;
  NodeId replaced_;
  NodeId first_new_;
  std::vector<std::pair<Value, Value>> replacements_;
  std::vector<NodeId> removed_;
  std::vector<bool> is_removed_;  // by node
};

// Lets change(output) change each output.
template <typename Change>
void rewrite_outputs(Graph& graph, Change change) {
  std::vector<Output> outputs(graph.outputs().begin(), graph.outputs().end());
  graph.clear_outputs();
  for (Output& output : outputs) {
    change(output);
    graph.add_output(std::move(output));
  }
}

}  // namespace ridgepoint
