// Keeps the states of the optimizer, and of master weights what only it reads, in the memory of the host
// (options.offload). A group of updates has its states copied to the device ahead of it (copy_from_host), while earlier
// launches run, and its new states copied back behind it (copy_to_host), while later ones do, as ZeRO-Offload does
// (Ren et al. 2021), but with the update on the device.
//
// A group may be updated as soon as its gradients are there, and nothing later reads the parameters that it overwrites:
// one group behind each product of backward, so that the copies are spread over it, and the rest behind backward. Where
// gradients are clipped or scaled, that is all of them.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/scope.h"
#include "ir/stored_tensors.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/memory/transfers.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// A larger group of a tensor outside of blocks, such as the table of embeddings, waits until backward has ended, whose
// activations need the memory.
constexpr std::size_t kMostBytesBesideBackward = std::size_t{1} << 30;

bool is_product(const Node& node) {
  const KernelClass kind = traits(node.op).kernel_class;
  return kind == KernelClass::matmul || kind == KernelClass::attention;
}

class StateOffloader {
 public:
  explicit StateOffloader(Graph& graph) : graph_(graph), settings_(graph), readers_(graph), original_(nodes_of(graph)) {
    find_positions();
  }

  bool run() {
    std::vector<Move> moves;
    for (const NodeId id : original_) {
      if (std::optional<Move> move = move_of(id)) moves.push_back(std::move(*move));
    }
    if (moves.empty()) return false;
    make_groups(std::move(moves));
    choose_slots();
    make_transfers();
    reorder();
    return true;
  }

 private:
  // An update, with the operands and results that lie on the host.
  struct Move {
    NodeId update;
    std::vector<std::size_t> operands, results;
    std::size_t bytes = 0;
    std::size_t ready = 0;  // the position of the last node that must come before it
  };
  struct Group {
    std::vector<Move> moves;
    std::size_t bytes = 0, ready = 0;
    bool is_delayed = false;
    std::optional<std::size_t> slot = {};  // the position of the product that it follows; empty: behind backward
    NodeId fetch, store;
  };

  void find_positions() {
    position_ = positions(graph_);
    last_read_.resize(graph_.value_count());
    ready_.resize(graph_.value_count());
    for (const NodeId id : original_) {
      const Node& node = graph_.node(id);
      const bool counts = launches(node.op) && node.phase != Phase::optimizer;
      std::size_t ready = counts ? position_[id.id] : 0;
      for (const Value value : node.inputs) {
        ready = std::max(ready, ready_[value.id]);
        if (launches(node.op) && !optimizer_layout(node)) last_read_[view_root(graph_, value).id] = position_[id.id];
      }
      for (const Value value : node.outputs) ready_[value.id] = ready;
      if (counts && is_product(node) && node.phase != Phase::forward && node.phase != Phase::loss)
        products_.push_back(position_[id.id]);
    }
    for (const Update& update : graph_.updates()) updated_by_[update.value] = update.input;
  }

  std::optional<Move> move_of(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::optional<OptimizerLayout> layout = optimizer_layout(node);
    if (!layout || updates_several_tensors(node)) return std::nullopt;
    Move move{.update = id};
    for (std::size_t result = 0; result <= layout->kept_per_tensor(); ++result) {
      // Behind the parameter is its gradient, which is no result.
      const std::size_t operand = layout->scalars + (result == 0 ? 0 : result + 1);
      if (!may_lie_on_host(node, operand, result)) continue;
      move.operands.push_back(operand);
      move.results.push_back(result);
      move.bytes += graph_.type(node.inputs[operand]).bytes();
    }
    if (move.operands.empty()) return std::nullopt;
    for (const Value value : node.inputs) move.ready = std::max(move.ready, ready_[value.id]);
    for (const Value value : node.outputs) {
      const auto input = updated_by_.find(value);
      if (input != updated_by_.end()) move.ready = std::max(move.ready, last_read_[input->second.id]);
    }
    return move;
  }

  // Whether the update alone reads the operand, an input, and makes its next value.
  bool may_lie_on_host(const Node& update, std::size_t operand, std::size_t result) const {
    const Value value = update.inputs[operand];
    if (graph_.producer_node(value).op != Op::input || readers_.of(value).size() != 1) return false;
    const auto input = updated_by_.find(update.outputs[result]);
    return input != updated_by_.end() && input->second == value && readers_.of(update.outputs[result]).empty() &&
           !readers_.is_result(value);
  }

  // In the order in which they may be updated.
  void make_groups(std::vector<Move> moves) {
    std::ranges::stable_sort(moves, {}, &Move::ready);
    for (Move& move : moves) {
      if (groups_.empty() || groups_.back().bytes + move.bytes > kGroupBytes) groups_.emplace_back();
      Group& group = groups_.back();
      group.bytes += move.bytes;
      group.ready = std::max(group.ready, move.ready);
      group.moves.push_back(std::move(move));
    }
    for (Group& group : groups_) {
      const Node& update = graph_.node(group.moves[0].update);
      group.is_delayed = group.bytes > kMostBytesBesideBackward && block_of(graph_.scope_name(update)).empty();
    }
    // Behind backward the largest come last, when the fewest gradients are left.
    const auto delayed = std::ranges::stable_partition(groups_, [](const Group& group) { return !group.is_delayed; });
    std::ranges::stable_sort(delayed, {}, &Group::bytes);
  }

  void choose_slots() {
    auto group = groups_.begin();
    for (const std::size_t product : products_) {
      if (group == groups_.end() || group->is_delayed) return;
      if (group->ready <= product) (group++)->slot = product;
    }
  }

  void make_transfers() {
    graph_.set_insertion_at_end();
    graph_.set_phase(Phase::optimizer);
    graph_.set_scope("optimizer");
    std::map<Value, Value> stored;  // by the result of an update
    for (Group& group : groups_) make_transfers_of(group, stored);
    const std::vector<Update> updates(graph_.updates().begin(), graph_.updates().end());
    graph_.clear_updates();
    for (const Update& update : updates) {
      const auto found = stored.find(update.value);
      graph_.add_update(update.input, found == stored.end() ? update.value : found->second);
    }
  }

  void make_transfers_of(Group& group, std::map<Value, Value>& stored) {
    std::vector<Value> on_host, results;
    for (const Move& move : group.moves) {
      const Node& update = graph_.node(move.update);
      for (const std::size_t operand : move.operands) on_host.push_back(update.inputs[operand]);
      for (const std::size_t result : move.results) results.push_back(update.outputs[result]);
    }
    for (const Value value : on_host) graph_.node(graph_.producer(value)).attributes.set(kOnHost, true);
    const std::vector<Value> fetched = copy_from_host(graph_, on_host);
    group.fetch = graph_.producer(fetched[0]);
    std::size_t next = 0;
    for (const Move& move : group.moves) {
      for (const std::size_t operand : move.operands) graph_.node(move.update).inputs[operand] = fetched[next++];
    }
    const std::vector<Value> kept = store_group(graph_, results);
    group.store = graph_.producer(kept[0]);
    for (std::size_t i = 0; i < results.size(); ++i) stored[results[i]] = kept[i];
  }

  // Lays the nodes in their new order: the updates and transfers of the groups at their slots, with what they need and
  // does not stand before, such as the step count, and all other nodes as they were.
  void reorder() {
    is_placed_.resize(graph_.node_capacity());
    std::map<std::size_t, std::vector<NodeId>> at_slot;
    std::vector<NodeId> at_end;
    std::vector<bool> is_moved(graph_.node_capacity());
    const auto place_of = [&](const std::optional<std::size_t>& slot) -> std::vector<NodeId>& {
      return slot ? at_slot[*slot] : at_end;
    };
    for (std::size_t i = 0; i < std::min(kAhead, groups_.size()) && (i == 0 || !groups_[i].is_delayed); ++i)
      place_of(slot_before(groups_[0])).push_back(groups_[i].fetch);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      std::vector<NodeId>& nodes = place_of(groups_[i].slot);
      // The states of later groups are on their way during this update; delayed ones need too much memory for that.
      if (i > 0 && groups_[i].is_delayed) nodes.push_back(groups_[i].fetch);
      if (i + kAhead < groups_.size() && !groups_[i + kAhead].is_delayed) nodes.push_back(groups_[i + kAhead].fetch);
      for (const Move& move : groups_[i].moves) {
        nodes.push_back(move.update);
        is_moved[move.update.id] = true;
      }
      nodes.push_back(groups_[i].store);
    }
    for (const NodeId id : original_) {
      if (!is_moved[id.id]) place(id);
      if (const auto moved = at_slot.find(position_[id.id]); moved != at_slot.end()) {
        for (const NodeId node : moved->second) place(node);
      }
    }
    for (const NodeId node : at_end) place(node);
    for (std::size_t i = order_.size() - 1; i > 0; --i) graph_.move_before(order_[i - 1], order_[i]);
  }

  // The product before that which the group follows.
  std::optional<std::size_t> slot_before(const Group& group) const {
    const auto own = group.slot ? std::ranges::find(products_, *group.slot) : products_.end();
    return own == products_.begin() ? group.slot : std::optional(own[-1]);
  }

  void place(NodeId id) {
    if (is_placed_[id.id]) return;
    is_placed_[id.id] = true;
    for (const Value value : graph_.node(id).inputs) place(graph_.producer(value));
    order_.push_back(id);
  }

  Graph& graph_;
  const GraphSettings settings_;
  const Readers readers_;
  const std::vector<NodeId> original_;
  std::vector<std::size_t> position_;   // by node
  std::vector<std::size_t> last_read_;  // by the value whose storage is read: by nodes that are no updates
  std::vector<std::size_t> ready_;      // by value: the position of the last node before the optimizer that leads to it
  std::vector<std::size_t> products_;   // positions of those of backward
  std::map<Value, Value> updated_by_;   // the input, by its new value
  std::vector<Group> groups_;
  std::vector<bool> is_placed_;  // by node
  std::vector<NodeId> order_;
};

}  // namespace

bool offload_states(Graph& graph, const PassOptions& options) {
  return includes(options.offload, Offload::optimizer) && StateOffloader(graph).run();
}

}  // namespace ridgepoint
