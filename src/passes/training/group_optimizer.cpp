// Merges optimizer nodes into one node over all their tensors, so that one kernel updates them (a multi-tensor
// optimizer). The merged node replaces the last node of the group.
//
// The nodes of a group have equal attributes, the same step value and the same guard. No kernel may come between them:
// a delayed update would keep its gradient in memory for longer. A group ends before a node that reads an updated
// value, and before an update whose storage the group reads or writes. If weights lie on the host, a group has as many
// bytes of weights as a group of copies.
// On several ranks a merged node waits for the sums of all its gradients. So the updates that need the last sum are
// groups of their own after all others, and the others run beside the last sum.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/memory/transfers.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class OptimizerGrouper {
 public:
  OptimizerGrouper(Graph& graph, const PassOptions& options)
      : graph_(graph),
        rewriter_(graph),
        target_(options.target),
        most_bytes_(includes(options.offload, Offload::parameters) ? kGroupBytes : SIZE_MAX) {}

  bool run() {
    for (const NodeId id : graph_.order()) visit(id);
    close_last();
    const std::span<const std::vector<NodeId>> groups = closed_;
    for (const std::vector<NodeId>& members : groups.first(last_)) {
      if (members.size() > 1) merge(members, members.back());
    }
    merge_by_waits(groups.subspan(last_));
    return rewriter_.finish();
  }

 private:
  struct Group {
    std::vector<NodeId> members;
    std::set<Value> made;     // the members' results
    std::set<Value> read;     // storage the members read
    std::set<Value> written;  // storage their results may overwrite
    std::size_t bytes = 0;    // of the parameters
  };

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    const std::optional<OptimizerLayout> layout = optimizer_layout(node);
    if (launches(node.op) && !layout) return close_last();
    close_if([&](const Group& group) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](Value value) { return group.made.contains(value); });
    });
    if (layout) add(id, node, *layout);
  }

  void add(NodeId id, const Node& node, const OptimizerLayout& layout) {
    Group own;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value storage = view_root(graph_, node.inputs[i]);
      own.read.insert(storage);
      if (i >= layout.scalars && !layout.is_gradient(i)) own.written.insert(storage);
    }
    own.bytes = graph_.type(node.inputs[layout.scalars]).bytes();
    close_if([&](const Group& group) {
      return group.bytes + own.bytes > most_bytes_ || meet(group.written, own.read) || meet(group.read, own.written);
    });
    const auto joined = std::find_if(open_.begin(), open_.end(), [&](const Group& group) {
      const Node& other = graph_.node(group.members.front());
      return other.op == node.op && other.attributes == node.attributes && other.phase == node.phase &&
             std::equal(node.inputs.begin(), node.inputs.begin() + scalars_of(node), other.inputs.begin());
    });
    Group& group = joined != open_.end() ? *joined : open_.emplace_back();
    group.members.push_back(id);
    group.made.insert(node.outputs.begin(), node.outputs.end());
    group.read.merge(own.read);
    group.written.merge(own.written);
    group.bytes += own.bytes;
  }

  static std::ptrdiff_t scalars_of(const Node& node) {
    return static_cast<std::ptrdiff_t>(optimizer_layout(node)->scalars);
  }

  // Looks up the elements of the smaller set, because a group grows with the model and a node's storage does not.
  static bool meet(const std::set<Value>& a, const std::set<Value>& b) {
    const std::set<Value>& smaller = a.size() < b.size() ? a : b;
    const std::set<Value>& larger = a.size() < b.size() ? b : a;
    return std::any_of(smaller.begin(), smaller.end(), [&](Value value) { return larger.contains(value); });
  }

  template <typename Condition>
  void close_if(Condition condition) {
    std::erase_if(open_, [&](const Group& group) {
      if (!condition(group)) return false;
      closed_.push_back(group.members);
      return true;
    });
  }

  // Closes all groups. Nothing else is launched between their members.
  void close_last() {
    if (open_.empty()) return;
    last_ = closed_.size();
    close_if([](const Group&) { return true; });
  }

  // All updates that do not wait for the last sum come before those that do.
  void merge_by_waits(std::span<const std::vector<NodeId>> groups) {
    const std::vector<std::size_t> position = positions(graph_);
    std::optional<NodeId> last_sum, end;
    const auto is_later = [&](NodeId id, const std::optional<NodeId>& than) {
      return !than || position[id.id] > position[than->id];
    };
    for (const std::vector<NodeId>& members : groups) {
      if (is_later(members.back(), end)) end = members.back();
      for (const NodeId id : members) {
        if (const std::optional<NodeId> sum = sum_of(id); sum && is_later(*sum, last_sum)) last_sum = sum;
      }
    }
    for (const bool waits : {false, true}) {
      for (const std::vector<NodeId>& members : groups) {
        std::vector<NodeId> part;
        std::ranges::copy_if(members, std::back_inserter(part),
                             [&](NodeId id) { return (last_sum && sum_of(id) == last_sum) == waits; });
        if (part.size() > 1 || (waits && !part.empty())) merge(part, last_sum ? *end : members.back());
      }
    }
  }

  // The collective that makes the gradient of a node of one tensor, if one does.
  std::optional<NodeId> sum_of(NodeId id) const {
    const Node& node = graph_.node(id);
    Value gradient = view_root(graph_, node.inputs[optimizer_layout(node)->scalars + 1]);
    if (const std::optional<Value> low = low_source(graph_, gradient)) gradient = view_root(graph_, *low);
    const NodeId producer = graph_.producer(gradient);
    return op_class(graph_.node(producer).op) == OpClass::collective ? std::optional(producer) : std::nullopt;
  }

  // The merged node stands where `end` does.
  void merge(const std::vector<NodeId>& members, NodeId end) {
    Node merged = graph_.node(members.back());
    const std::ptrdiff_t scalars = scalars_of(merged);
    merged.inputs.erase(merged.inputs.begin() + scalars, merged.inputs.end());
    merged.outputs.clear();
    for (const NodeId id : members) {
      const Node& node = graph_.node(id);
      merged.inputs.insert(merged.inputs.end(), node.inputs.begin() + scalars, node.inputs.end());
      merged.outputs.insert(merged.outputs.end(), node.outputs.begin(), node.outputs.end());
    }
    if (!target_.has_kernel(graph_, merged)) return;
    rewriter_.insert_before(end, "optimizer");
    const Node& made = graph_.node(make_node(graph_, merged.op, merged.inputs, merged.attributes));
    for (std::size_t i = 0; i < merged.outputs.size(); ++i) rewriter_.replace(merged.outputs[i], made.outputs[i]);
    for (const NodeId id : members) rewriter_.remove(id);
  }

  Graph& graph_;
  Rewriter rewriter_;
  const PassTarget& target_;
  const std::size_t most_bytes_;  // of the parameters of a group
  std::vector<Group> open_;
  std::vector<std::vector<NodeId>> closed_;
  std::size_t last_ = 0;  // of the closed groups: the first of those that the last launch behind them has closed
};

}  // namespace

bool group_optimizer(Graph& graph, const PassOptions& options) { return OptimizerGrouper(graph, options).run(); }

}  // namespace ridgepoint
