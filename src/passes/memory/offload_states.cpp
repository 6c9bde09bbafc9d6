// Offloads the optimizer states to the host (options.offload), with the part of master weights that only the optimizer
// reads. The states of a group of updates are copied to the device before the group (copy_from_host), while earlier
// launches run. The new states are copied back after it (copy_to_host), while later launches run. ZeRO-Offload copies
// in the same way (Ren et al. 2021), but updates on the processor. With options.offload_folder the states lie in a
// file.
// A group may be updated as soon as its gradients are there and nothing later reads the parameters that it overwrites.
// One group follows each product of backward, so that the copies are spread over backward; the rest follow backward. If
// gradients are clipped or scaled, all groups follow backward.
// Each rank copies the states that it keeps, and an update waits for the sum of its gradients over the ranks. New
// parameters are gathered after the group with the last of their updates.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/scope.h"
#include "ir/stored_tensors.h"
#include "ops/collectives.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/memory/transfers.h"
#include "passes/memory/update_order.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// A group larger than this of a tensor outside of blocks, such as the table of embeddings, waits until backward has
// ended, because the activations need the memory.
constexpr std::size_t kMostBytesBesideBackward = std::size_t{1} << 30;

class StateOffloader {
 public:
  StateOffloader(Graph& graph, bool to_disk)
      : graph_(graph), to_disk_(to_disk), settings_(graph), readers_(graph), order_(graph) {}

  bool run() {
    std::vector<Move> moves;
    for (const NodeId id : order_.nodes()) {
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
    std::vector<std::size_t> operands = {}, results = {};
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

  std::optional<Move> move_of(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::optional<OptimizerLayout> layout = optimizer_layout(node);
    if (!layout || updates_several_tensors(node)) return std::nullopt;
    Move move{.update = id};
    for (std::size_t result = 0; result <= layout->kept_per_tensor(); ++result) {
      // The operand after the parameter is the gradient, which is no result.
      const std::size_t operand = layout->scalars + (result == 0 ? 0 : result + 1);
      if (!may_lie_on_host(node, operand, result)) continue;
      move.operands.push_back(operand);
      move.results.push_back(result);
      move.bytes += graph_.type(node.inputs[operand]).bytes();
    }
    if (move.operands.empty()) return std::nullopt;
    move.ready = order_.ready(id);
    return move;
  }

  // Whether the operand is an input that only the update reads, and the update makes its next value.
  bool may_lie_on_host(const Node& update, std::size_t operand, std::size_t result) const {
    const Value value = update.inputs[operand];
    if (graph_.producer_node(value).op != Op::input || readers_.of(value).size() != 1) return false;
    return order_.input_updated_by(update.outputs[result]) == value && readers_.of(update.outputs[result]).empty() &&
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
    // After backward the largest groups come last, when the fewest gradients are left.
    const auto delayed = std::ranges::stable_partition(groups_, [](const Group& group) { return !group.is_delayed; });
    std::ranges::stable_sort(delayed, {}, &Group::bytes);
  }

  void choose_slots() {
    auto group = groups_.begin();
    for (const std::size_t product : order_.products()) {
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
    redirect_updates(graph_, stored);
  }

  void make_transfers_of(Group& group, std::map<Value, Value>& stored) {
    std::vector<Value> on_host, results;
    for (const Move& move : group.moves) {
      const Node& update = graph_.node(move.update);
      for (const std::size_t operand : move.operands) on_host.push_back(update.inputs[operand]);
      for (const std::size_t result : move.results) results.push_back(update.outputs[result]);
    }
    for (const Value value : on_host) {
      Attributes& attributes = graph_.node(graph_.producer(value)).attributes;
      attributes.set(kOnHost, true);
      if (to_disk_) attributes.set(kOnDisk, true);
    }
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

  // The updates and transfers of the groups stand at their slots.
  void reorder() {
    const std::map<std::size_t, std::vector<NodeId>> gathers = gathers_of_groups();
    std::map<std::size_t, std::vector<NodeId>> at_slot;
    std::vector<NodeId> at_end;
    const auto place_of = [&](const std::optional<std::size_t>& slot) -> std::vector<NodeId>& {
      return slot ? at_slot[*slot] : at_end;
    };
    for (std::size_t i = 0; i < std::min(kAhead, groups_.size()) && (i == 0 || !groups_[i].is_delayed); ++i)
      place_of(slot_before(groups_[0])).push_back(groups_[i].fetch);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      std::vector<NodeId>& nodes = place_of(groups_[i].slot);
      // The states of later groups are copied during this update. A delayed group waits, because its states need too
      // much memory.
      if (i > 0 && groups_[i].is_delayed) nodes.push_back(groups_[i].fetch);
      if (i + kAhead < groups_.size() && !groups_[i + kAhead].is_delayed) nodes.push_back(groups_[i + kAhead].fetch);
      for (const Move& move : groups_[i].moves) nodes.push_back(move.update);
      nodes.push_back(groups_[i].store);
      const auto found = gathers.find(i);
      if (found == gathers.end()) continue;
      for (const NodeId gather : found->second) place_of(slot_of_gather(gather, groups_[i].slot)).push_back(gather);
    }
    order_.reorder(at_slot, at_end);
  }

  // The last product before the one that the group follows.
  std::optional<std::size_t> slot_before(const Group& group) const {
    const std::span<const std::size_t> products = order_.products();
    const auto own = group.slot ? std::ranges::find(products, *group.slot) : products.end();
    return own == products.begin() ? group.slot : std::optional(own[-1]);
  }

  // Gathers, by the group that has the last update of a part that they gather.
  std::map<std::size_t, std::vector<NodeId>> gathers_of_groups() const {
    std::map<NodeId, std::size_t> group_of;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      for (const Move& move : groups_[i].moves) group_of[move.update] = i;
    }
    std::map<std::size_t, std::vector<NodeId>> gathers;
    for (const NodeId id : order_.nodes()) {
      const Node& node = graph_.node(id);
      if (!is_gather_of(node, Gather::new_parameters)) continue;
      std::optional<std::size_t> last;
      for (const Value part : sent_operands(node)) {
        const auto group = group_of.find(graph_.producer(part));
        if (group == group_of.end()) {  // an update without states, which stays behind backward
          last.reset();
          break;
        }
        last = std::max(last.value_or(0), group->second);
      }
      if (last) gathers[*last].push_back(id);
    }
    return gathers;
  }

  // The first slot, from the group's slot on, after which nothing reads the old parameters.
  std::optional<std::size_t> slot_of_gather(NodeId gather, std::optional<std::size_t> slot) const {
    if (!slot) return slot;
    std::size_t ready = *slot;
    for (const Value parameter : graph_.node(gather).inputs)
      ready = std::max(ready, order_.last_read(view_root(graph_, parameter)));
    const auto product = std::ranges::lower_bound(order_.products(), ready);
    return product == order_.products().end() ? std::nullopt : std::optional(*product);
  }

  Graph& graph_;
  bool to_disk_;
  const GraphSettings settings_;
  const Readers readers_;
  UpdateOrder order_;
  std::vector<Group> groups_;
};

}  // namespace

bool offload_states(Graph& graph, const PassOptions& options) {
  return includes(options.offload, Offload::optimizer) && StateOffloader(graph, !options.offload_folder.empty()).run();
}

}  // namespace ridgepoint
