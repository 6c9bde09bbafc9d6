// What passes that rewrite a graph share: where new nodes stand and whose phase, scope and source they take, and the
// one walk that puts new values in the place of old ones.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Puts back the phase and the scope that new nodes of a graph get.
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

// Notes of the nodes from `first` on what composite they are a piece of, where they are a piece of none yet.
void set_origin(Graph& graph, NodeId first, Op composite);

// The nodes in schedule order as they stand now, for a walk that inserts and removes.
std::vector<NodeId> nodes_of(const Graph& graph);

// One rewriting of a graph. Values that it replaces and nodes that it removes stay as they are until finish(). At its
// end the graph's phase and scope are again what they were, and new nodes stand at the end of the graph.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph), settings_(graph) {}
  ~Rewriter();
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  // New nodes stand before that node and for it: they take its phase, its scope (or the one given), its source and,
  // where they are a piece of no composite of their own, its origin.
  void stand_before(NodeId node);
  void stand_before(NodeId node, std::string_view scope);
  // New nodes stand for that node at the end of the graph.
  void stand_at_end(NodeId node);
  // Removes the nodes made since one of these was called.
  void undo();

  // A copy of the value, labels included.
  Value copy(Value value);
  // The same view of another value of its operand's shape, in the phase and the scope of the view that is given.
  Value view_again(const Node& view, Value operand);

  void replace(Value before, Value after) { replacements_.emplace_back(before, after); }
  // Every result of a node, which is removed.
  void replace(NodeId before, std::span<const Value> after);
  void remove(NodeId node);
  bool is_removed(NodeId node) const { return node.id < is_removed_.size() && is_removed_[node.id]; }

  // Rewrites every use of replaced values and erases removed nodes. Returns whether there were any.
  bool finish();

 private:
  void stand_for(NodeId node, std::string_view scope);
  void stamp_new_nodes();

  Graph& graph_;
  GraphSettings settings_;
  NodeId stands_for_;
  NodeId first_new_;
  std::vector<std::pair<Value, Value>> replacements_;
  std::vector<NodeId> removed_;
  std::vector<bool> is_removed_;  // by node
};

// Puts now(value) in the place of each output's value.
template <typename Now>
void rewrite_outputs(Graph& graph, Now now) {
  std::vector<Output> outputs(graph.outputs().begin(), graph.outputs().end());
  graph.clear_outputs();
  for (Output& output : outputs) {
    output.value = now(output.value);
    graph.add_output(std::move(output));
  }
}

}  // namespace ridgepoint
