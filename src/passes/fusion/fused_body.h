// Makes a fused node of a group of nodes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "passes/pass.h"
#include "ridgepoint/ir/graph.h"

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
  std::span<const NodeId> readers(Value of) const { return readers_.of(of); }
  std::span<const NodeId> views(Value of) const { return views_.of(of); }
  // Whether the root or a view of it is an output or updates an input.
  bool is_result(Value of) const { return is_result_[of.id]; }

 private:
  template <typename Add>
  void visit_reads(const Graph& graph, bool of_views, const Add& add) const;

  std::vector<Value> roots_;
  NodesByValue readers_, views_;
  std::vector<bool> is_result_;
};

// Whether a body repeats the node, which has no operands, instead of reading its result.
bool is_repeated(const Node& node);

// Whether the node is a composite that computes each element of its result from the same element of its operands.
bool is_elementwise_composite(const Node& node);
// The same of any node.
bool is_elementwise(const Node& node);
bool is_norm(const Node& node);

// Whether the node may be a member of a group. Hand-written kernels of other composites are faster, or read by index.
bool can_fuse(const Node& node);

// Whether one row-reducing kernel could compute the node and a reduction over the rows of `parts`. `parts` are results
// of the node and have one shape.
bool is_made_by_rows(const Graph& graph, NodeId maker, std::span<const Value> parts);
// Which results of the node the parts are.
std::vector<std::size_t> result_numbers(const Node& node, std::span<const Value> parts);
// A copy of the node's body, to which a pass adds results; its name ends in `end`.
Graph body_to_extend(const Graph& graph, const Node& node, std::string_view end);

enum class Composites { decomposed, kept };
// The fused node of `members`, which are in the order of execution. Its results are the values that other nodes read or
// that the graph keeps. The body decomposes fused nodes, and composites unless they are kept.
Fusion fuse(const Graph& graph, const Storage& storage, std::span<const NodeId> members,
            Composites composites = Composites::decomposed);

// Shared by the passes that make fused nodes, if the target has a kernel for them.
class NodeFuser {
 public:
  NodeFuser(Graph& graph, const PassTarget& target)
      : graph_(graph), target_(target), storage_(graph), position_(positions(graph)), rewriter_(graph) {}

 protected:
  // fuse() of the graph. Equal groups, and groups whose bodies have equal texts, share a body.
  Fusion fuse(std::span<const NodeId> members, Composites composites = Composites::decomposed);
  bool has_kernel(const Fusion& fusion) const;
  // Whether a node before `place` reads the root, directly or through views.
  bool is_read_before(Value root, NodeId place) const;
  // Inserts the fused node before `place`, in the scope of `leader`. Its results replace the members' results; views of
  // them that stand before `place` are repeated there.
  Node& insert(const Fusion& fusion, NodeId place, NodeId leader);
  // Removes the members, and the views of their values that only the body has.
  void remove(std::span<const NodeId> members, const Fusion& fusion);

  Graph& graph_;
  const PassTarget& target_;
  const Storage storage_;
  const std::vector<std::size_t> position_;  // by node
  Rewriter rewriter_;

 private:
  void move_views(Value before, Value after, NodeId place);

  std::unordered_map<std::string, std::shared_ptr<const FusedBody>> body_of_;  // by what it depends on
  std::unordered_map<std::string_view, std::shared_ptr<const FusedBody>> body_with_text_;
};

}  // namespace ridgepoint
