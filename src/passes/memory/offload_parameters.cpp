// Offloads the weights of blocks to the host (options.offload): trained and frozen parameters, and the low copies that
// products read. The weights of a block are copied to the device before their use in forward, and again before their
// use in backward (copy_from_host); the last block keeps its weights in between. A weight that the optimizer updates on
// the device is copied back after its update (copy_to_host). If ranks gather new weights, a gather writes to memory of
// its own, from which the weights are copied to the host. A rank that keeps parts of weights copies its part to the
// device before each gather, in forward and in backward.
// Small parameters and parameters that something outside of blocks reads stay on the device.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "ops/collectives.h"
#include "ops/layout.h"
#include "passes/memory/transfers.h"
#include "passes/memory/update_order.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class ParameterOffloader {
 public:
  explicit ParameterOffloader(Graph& graph)
      : graph_(graph), settings_(graph), order_(nodes_of(graph)), layouts_(value_layouts(graph)), visits_(graph) {}

  bool run() {
    find_weights();
    if (weights_.empty()) return false;
    std::vector<HostRead> reads;
    for (auto& [weight, of_weight] : weights_) {
      graph_.node(graph_.producer(weight)).attributes.set(kOnHost, true);
      std::ranges::move(of_weight, std::back_inserter(reads));
    }
    move_inputs_ahead();
    gather_beside_old_weights();
    store_updates();
    fetch_ahead(graph_, order_, layouts_, std::move(reads));
    return true;
  }

 private:
  // An update reads its weight apart from what reads it in a block.
  static bool is_update(const Node& node) { return node.phase == Phase::optimizer; }

  void find_weights() {
    for (const NodeId id : order_) {
      if (const Node& node = graph_.node(id); may_move(node)) weights_[node.outputs[0]];
    }
    for (const Output& output : graph_.outputs()) weights_.erase(layouts_[output.value.id].root);
    for (const Update& update : graph_.updates()) {
      if (layouts_[update.value.id].root != update.value) weights_.erase(update.input);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Node& node = graph_.node(order_[i]);
      if (!launches(node.op)) continue;
      if (first_launch_ == SIZE_MAX) first_launch_ = i;
      // What a gather overwrites, it does not read.
      const bool is_gather = op_class(node.op) == OpClass::collective;
      for (const Value value : is_gather ? sent_operands(node) : std::span<const Value>(node.inputs))
        add_read(layouts_[value.id], i);
    }
    std::erase_if(weights_, [](const auto& weight) { return weight.second.empty(); });
  }

  bool may_move(const Node& node) const {
    if (node.op != Op::input || node.attributes.get_or(kOnHost, false)) return false;
    const bool is_weight = input_role(node) == Role::parameter || node.attributes.contains(kCopyOf);
    return is_weight && graph_.type(node.outputs[0]).bytes() >= kLeastBytesOfCopy;
  }

  void add_read(const ValueLayout& layout, std::size_t position) {
    const auto weight = layout.layout.immediate ? weights_.end() : weights_.find(layout.root);
    if (weight == weights_.end()) return;
    const NodeId reader = order_[position];
    const bool stands_alone = is_update(graph_.node(reader)) || visits_.is_for_gather[position];
    const std::size_t visit = visits_.numbers[position];
    if (visit == 0 && !stands_alone) {  // outside of blocks
      weights_.erase(weight);
      return;
    }
    std::vector<HostRead>& reads = weight->second;
    // The block that runs last in forward comes next in backward.
    const bool goes_on = !stands_alone && !reads.empty() && last_visit_[weight->first] + 1 >= visit;
    if (!goes_on) {
      reads.push_back({.on_host = weight->first,
                       .storage = weight->first,
                       .visit = stands_alone ? order_.size() + position : visit,
                       .first = position,
                       .earliest = first_launch_});
    }
    std::vector<NodeId>& readers = reads.back().readers;
    if (readers.empty() || readers.back() != reader) readers.push_back(reader);
    if (!stands_alone) last_visit_[weight->first] = visit;
  }

  // Before the first copy, in their old order.
  void move_inputs_ahead() {
    const auto other = std::ranges::find_if(order_, [&](NodeId id) { return graph_.node(id).op != Op::input; });
    for (const NodeId input : graph_.inputs()) graph_.move_before(input, *other);
  }

  // Gathers into weights on the host become gathers of as many elements.
  void gather_beside_old_weights() {
    std::map<Value, Value> gathered;
    std::vector<NodeId> replaced;
    for (const NodeId id : order_) {
      const Node node = graph_.node(id);
      const bool is_into_moved =
          std::ranges::any_of(node.inputs, [&](Value value) { return weights_.contains(value); });
      if (!is_gather_of(node, Gather::new_parameters) || !is_into_moved) continue;
      graph_.set_insertion_before(id);
      graph_.set_phase(node.phase);
      graph_.set_scope("");
      const std::int64_t ranks = node.attributes.get<std::int64_t>("ranks");
      std::vector<Value> results, parts, kept, kept_results, kept_parts;
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const Value part = sent_operands(node)[i];
        const bool moves = weights_.contains(node.inputs[i]);
        (moves ? parts : kept_parts).push_back(part);
        (moves ? results : kept_results).push_back(node.outputs[i]);
        if (!moves) kept.push_back(node.inputs[i]);
      }
      const std::vector<Value> whole = all_gather(graph_, parts, ranks);
      gathers_.push_back(graph_.producer(whole[0]));
      for (std::size_t i = 0; i < whole.size(); ++i) {
        const Shape& shape = graph_.type(results[i]).shape;
        gathered[results[i]] = graph_.type(whole[i]).shape == shape ? whole[i] : reshape(graph_, whole[i], shape);
      }
      if (!kept.empty()) {
        const std::vector<Value> into = all_gather_into(graph_, kept, kept_parts, ranks);
        for (std::size_t i = 0; i < into.size(); ++i) gathered[kept_results[i]] = into[i];
      }
      replaced.push_back(id);
    }
    redirect_updates(graph_, gathered);
    graph_.erase(replaced);
  }

  // The new weights of an update or a gather are one group.
  void store_updates() {
    std::map<std::uint32_t, std::vector<Value>> made;  // by the node that makes them
    for (const Update& update : graph_.updates()) {
      if (!weights_.contains(update.input)) continue;
      made[graph_.producer(view_root(graph_, update.value)).id].push_back(update.value);
    }
    std::map<Value, Value> stored;
    for (const auto& [launch, values] : made) {
      insert_store_behind(NodeId{launch});
      graph_.set_phase(Phase::optimizer);
      graph_.set_scope("optimizer");
      const std::vector<Value> kept = store_group(graph_, values);
      for (std::size_t i = 0; i < values.size(); ++i) stored[values[i]] = kept[i];
    }
    redirect_updates(graph_, stored);
  }

  // A copy waits for the gather whose result it copies, and later launches wait with it, so the next gather begins
  // before the copy.
  void insert_store_behind(NodeId launch) {
    const auto gather = std::ranges::find(gathers_, launch);
    if (gather == gathers_.end()) return graph_.set_insertion_behind(launch);
    std::next(gather) == gathers_.end() ? graph_.set_insertion_at_end() : graph_.set_insertion_behind(gather[1]);
  }

  Graph& graph_;
  const GraphSettings settings_;
  const std::vector<NodeId> order_;
  const std::vector<ValueLayout> layouts_;
  const BlockVisits visits_;
  std::map<Value, std::vector<HostRead>> weights_;
  std::map<Value, std::size_t> last_visit_;
  std::vector<NodeId> gathers_;  // of new weights, in order
  std::size_t first_launch_ = SIZE_MAX;
};

}  // namespace

bool offload_parameters(Graph& graph, const PassOptions& options) {
  return includes(options.offload, Offload::parameters) && ParameterOffloader(graph).run();
}

}  // namespace ridgepoint
