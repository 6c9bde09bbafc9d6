// What a group of nodes is as one fused node.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/rewriter.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// A group as one node: its operands, its results in the graph, and the body.
struct Fusion {
  std::vector<Value> inputs;
  std::vector<Value> results;
  std::shared_ptr<const FusedBody> body;
};

// The storage that values read: the root of each value (view_root), and the readers and views of each root, as of the
// construction of this object.
class Storage {
 public:
  explicit Storage(const Graph& graph);

  Value root(Value value) const { return roots_[value.id]; }
  // Of a root. Readers through views count; views do not.
  const std::vector<NodeId>& readers(Value of) const { return readers_[of.id]; }
  const std::vector<NodeId>& views(Value of) const { return views_[of.id]; }
  // Whether the root or a view of it is an output or updates an input.
  bool is_result(Value of) const { return is_result_[of.id]; }

 private:
  std::vector<Value> roots_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<std::vector<NodeId>> views_;
  std::vector<bool> is_result_;
};

// Whether a body repeats the node, which has no operands, instead of reading its result.
bool is_repeated(const Node& node);

// Whether the node is a composite that computes each element of its result from the same element of its operands.
bool is_elementwise_composite(const Node& node);

enum class Composites { decomposed, kept };
// The fused node of `members`, which are in the order of execution. Its results are what other nodes read or the graph
// keeps; fused nodes are decomposed in the body, and composites unless they are kept.
Fusion fuse(const Graph& graph, const Storage& storage, std::span<const NodeId> members,
            Composites composites = Composites::decomposed);

// Repeats those views of `before` that stand too early for `after`, which takes its place: they would read it before it
// exists.
void move_views(Graph& graph, const Storage& storage, Value before, Value after,
                const std::function<bool(NodeId)>& is_early, Rewriter& rewriter);

}  // namespace ridgepoint
