// Keeps the weights of blocks in the memory of the host (options.offload): parameters, frozen ones among them, and the
// low copies that products read. The weights of a block are copied to the device ahead of their use in forward, and
// again ahead of that in backward (copy_from_host); the last block keeps its own in between. A weight that the
// optimizer updates on the device is copied back behind its update (copy_to_host).
//
// A parameter that something outside of blocks reads stays on the device, as do small ones.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "ops/layout.h"
#include "passes/memory/transfers.h"
#include "passes/pass.h"

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
      for (const Value value : node.inputs) add_read(layouts_[value.id], i);
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
    const bool updates = is_update(graph_.node(reader));
    const std::size_t visit = visits_.numbers[position];
    if (visit == 0 && !updates) {  // outside of blocks
      weights_.erase(weight);
      return;
    }
    std::vector<HostRead>& reads = weight->second;
    // The block that runs last in forward comes next in backward.
    const bool goes_on = !updates && !reads.empty() && last_visit_[weight->first] + 1 >= visit;
    if (!goes_on) {
      reads.push_back({.on_host = weight->first,
                       .storage = weight->first,
                       .visit = updates ? order_.size() + position : visit,
                       .first = position,
                       .earliest = first_launch_});
    }
    std::vector<NodeId>& readers = reads.back().readers;
    if (readers.empty() || readers.back() != reader) readers.push_back(reader);
    if (!updates) last_visit_[weight->first] = visit;
  }

  // Before the first copy, in the order in which they stood.
  void move_inputs_ahead() {
    const auto other = std::ranges::find_if(order_, [&](NodeId id) { return graph_.node(id).op != Op::input; });
    for (const NodeId input : graph_.inputs()) graph_.move_before(input, *other);
  }

  // The new weights of an update are one group.
  void store_updates() {
    std::map<std::uint32_t, std::vector<Value>> made;  // by the node that makes them
    for (const Update& update : graph_.updates()) {
      if (weights_.contains(update.input)) made[graph_.producer(update.value).id].push_back(update.value);
    }
    std::map<Value, Value> stored;
    for (const auto& [update, values] : made) {
      graph_.set_insertion_behind(NodeId{update});
      graph_.set_phase(Phase::optimizer);
      graph_.set_scope("optimizer");
      const std::vector<Value> kept = store_group(graph_, values);
      for (std::size_t i = 0; i < values.size(); ++i) stored[values[i]] = kept[i];
    }
    redirect_updates(graph_, stored);
  }

  Graph& graph_;
  const GraphSettings settings_;
  const std::vector<NodeId> order_;
  const std::vector<ValueLayout> layouts_;
  const BlockVisits visits_;
  std::map<Value, std::vector<HostRead>> weights_;
  std::map<Value, std::size_t> last_visit_;
  std::size_t first_launch_ = SIZE_MAX;
};

}  // namespace

bool offload_parameters(Graph& graph, const PassOptions& options) {
  return includes(options.offload, Offload::parameters) && ParameterOffloader(graph).run();
}

}  // namespace ridgepoint
