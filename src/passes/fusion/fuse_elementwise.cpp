// Replaces groups of elementwise ops, reductions and the composites made of these by fused nodes: one kernel reads the
// operands of a group once, and values that only the group reads stay in registers.
//
// Nodes are visited in the order of execution. A node joins the groups that make its operands, then the groups that
// read the same operands. The fused node stands where the last node of the group stood. So a group ends when a node
// outside of it reads one of its values; a later node still joins if its other operands exist at that place. Nodes of
// different phases stay apart, because times and memory are attributed to phases. The target decides what one kernel
// can compute. A derivative whose results are not all read becomes a fused node by itself, without the others.
#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/rule.h"
#include "passes/fusion/fused_body.h"

namespace ridgepoint {
namespace {

// Bounds of what a kernel keeps in registers.
constexpr std::size_t kMostMembers = 24;
constexpr std::size_t kMostTensors = 16;

class ElementwiseFuser : NodeFuser {
 public:
  using NodeFuser::NodeFuser;

  bool run() {
    for (const NodeId id : graph_.order()) visit(id);
    for (const Group& group : groups_) {
      if (group.members.size() > 1 || has_unused_results(group)) replace(group);
    }
    return rewriter_.finish();
  }

 private:
  static constexpr int kNoGroup = -1;
  struct Group {
    std::vector<NodeId> members;  // in the order of execution
    NodeId place;                 // of the fused node
    bool open = true;
  };

  Group& group(int index) { return groups_[static_cast<std::size_t>(index)]; }
  int group_making(Value root) const { return group_of_[graph_.producer(root).id]; }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (op_class(node.op) == OpClass::view || is_repeated(node)) return;
    std::vector<Value> roots;
    for (const Value value : node.inputs) roots.push_back(storage_.root(value));
    int own = kNoGroup;
    if (can_fuse(node)) {
      own = static_cast<int>(groups_.size());
      groups_.push_back({{id}, id});
      group_of_[id.id] = own;
      for (const Value root : roots) {
        const int making = group_making(root);
        if (making != kNoGroup && group(making).open && !stays_apart(node, root)) merge(making, own);
      }
      for (const Value root : roots) {
        if (const int making = group_making(root); making != own && can_move_up(node, making)) merge(making, own);
      }
      for (const Value root : roots) {
        if (!is_widest(root, node)) continue;
        const auto [reader, is_first] = last_reader_.try_emplace(root, id);
        if (is_first) continue;
        const int reading = group_of_[std::exchange(reader->second, id).id];
        if (group(reading).open && group(own).open) merge(reading, own);
      }
    }
    for (const Value root : roots) {
      const int making = group_making(root);
      if (making != kNoGroup && making != own) group(making).open = false;
    }
  }

  // Whether the node adds a gradient to the gradient of earlier micro-batches, and `root`, one of the two, is made of a
  // larger value. If they were fused, the earlier gradient would wait for the node. A vector is a sum of columns, and a
  // kernel of its own computes that faster.
  bool stays_apart(const Node& node, Value root) {
    const auto reads_larger = [&](NodeId id) {
      return std::ranges::any_of(graph_.node(id).inputs, [&](Value value) {
        return graph_.type(value).elements() > graph_.type(root).elements();
      });
    };
    const bool costs = storage_.root(node.inputs[0]) == root || graph_.type(root).elements() > 1;
    return node.attributes.get_or(kAccumulates, false) && costs &&
           std::ranges::any_of(group(group_making(root)).members, reads_larger);
  }

  // Whether no operand or result of the node is larger, so that reading it once saves much.
  bool is_widest(Value root, const Node& node) const {
    const auto is_larger = [&](Value value) { return graph_.type(value).elements() > graph_.type(root).elements(); };
    return std::ranges::none_of(node.inputs, is_larger) && std::ranges::none_of(node.outputs, is_larger);
  }

  // Whether a node that is alone in its group can be computed where the group `closed` is.
  bool can_move_up(const Node& node, int closed) {
    if (closed == kNoGroup || group(closed).open || group(group_of_[id_of(node).id]).members.size() > 1) return false;
    const std::size_t place = position_[group(closed).place.id];
    return std::ranges::all_of(node.inputs, [&](Value value) {
      const int making = group_making(storage_.root(value));
      if (making == closed) return true;
      const bool is_made = making == kNoGroup || (!group(making).open && position_[group(making).place.id] < place);
      return is_made && position_[graph_.producer(value).id] < place;
    });
  }
  NodeId id_of(const Node& node) const { return graph_.producer(node.outputs[0]); }

  // Moves the members of `other` to `own` if one kernel can compute both.
  void merge(int other, int own) {
    if (other == own) return;
    const std::vector<NodeId>& first = group(other).members;
    const std::vector<NodeId>& second = group(own).members;
    if (first.size() + second.size() > kMostMembers) return;
    if (graph_.node(first.front()).phase != graph_.node(second.front()).phase) return;
    if (accumulates(first) && accumulates(second)) return;
    std::vector<NodeId> members;
    std::ranges::merge(
        first, second, std::back_inserter(members), {}, [&](NodeId id) { return position_[id.id]; },
        [&](NodeId id) { return position_[id.id]; });
    if (!fits(members)) return;
    for (const NodeId id : first) group_of_[id.id] = own;
    if (!group(other).open) {
      group(own).place = group(other).place;
      group(own).open = false;
    }
    group(other).open = false;
    group(other).members.clear();
    group(own).members = std::move(members);
  }

  bool accumulates(std::span<const NodeId> members) const {
    return std::ranges::any_of(members,
                               [&](NodeId id) { return graph_.node(id).attributes.get_or(kAccumulates, false); });
  }

  bool fits(std::span<const NodeId> members) {
    const Fusion fusion = fuse(members);
    if (fusion.inputs.size() + fusion.results.size() > kMostTensors) return false;
    const auto [known, is_new] = fits_.try_emplace(fusion.body.get());
    if (is_new) known->second = has_kernel(fusion);
    return known->second;
  }

  // Whether the only member is a derivative with a result that nothing reads, such as the gradient of a frozen norm's
  // weight. A body leaves such a result out.
  bool has_unused_results(const Group& group) {
    if (group.members.size() != 1) return false;
    const Node& node = graph_.node(group.members.front());
    if (op_class(node.op) != OpClass::composite || node.phase != Phase::backward) return false;
    return fuse(group.members).results.size() < node.outputs.size() && fits(group.members);
  }

  // The member that names the module of the group and its class in a profile.
  NodeId leader(const Group& group) const {
    for (const NodeId id : group.members) {
      const KernelClass kind = traits(graph_.node(id).op).kernel_class;
      if (kind == KernelClass::norm || kind == KernelClass::softmax) return id;
    }
    return group.members.back();
  }

  void replace(const Group& group) {
    const Fusion fusion = fuse(group.members);
    const NodeId led = leader(group);
    Node& made = insert(fusion, group.place, led);
    if (const Op op = graph_.node(led).op; op_class(op) == OpClass::composite) made.origin = op;
    remove(group.members, fusion);
  }

  std::vector<Group> groups_;
  std::vector<int> group_of_ = std::vector<int>(graph_.node_capacity(), kNoGroup);  // by node
  std::map<Value, NodeId> last_reader_;                                             // by root
  std::unordered_map<const FusedBody*, bool> fits_;
};

}  // namespace

bool fuse_elementwise(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && ElementwiseFuser(graph, options.target).run();
}

}  // namespace ridgepoint
