// Offloads activations (options.offload): the tensors that a block saves for backward are copied to the host after
// their last use in forward (copy_to_host), and back before their first use in backward (copy_from_host), while other
// launches run. In between, their memory on the device is free. With activation checkpointing, only the tensors that it
// keeps are copied.
// The tensors of the last block stay on the device, because backward begins with them. Small tensors and results of the
// run stay, too.
#include <algorithm>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/scope.h"
#include "ops/layout.h"
#include "passes/memory/transfers.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

class ActivationOffloader {
 public:
  explicit ActivationOffloader(Graph& graph)
      : graph_(graph), settings_(graph), order_(nodes_of(graph)), layouts_(value_layouts(graph)), visits_(graph) {}

  bool run() {
    find_batches();
    find_uses();
    const std::vector<Tensor> tensors = tensors_to_move();
    if (tensors.empty()) return false;
    std::vector<HostRead> reads;
    for (auto begin = tensors.begin(); begin != tensors.end();) begin = store(begin, tensors.end(), reads);
    fetch_ahead(graph_, order_, layouts_, std::move(reads));
    return true;
  }

 private:
  // The launches that touch a storage.
  struct Use {
    std::size_t last_forward = kNone;  // before the first in backward
    std::size_t first_backward = kNone;
    std::vector<NodeId> late_readers = {};  // from the first in backward on
    bool is_written_late = false;
  };
  struct MicroBatch {
    std::size_t last_visit = 0;    // of a block in forward
    std::size_t backward = kNone;  // the position where backward enters its first block
  };
  struct Tensor {
    Value storage;
    std::size_t stored_behind = 0;  // a position
    std::size_t visit = 0;          // of the block that runs there
    std::size_t backward = 0;       // of its micro-batch
  };

  void find_batches() {
    std::size_t visit = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Node& node = graph_.node(order_[i]);
      if (const std::size_t number = visits_.numbers[i]; number > 0 && BlockVisits::is_backward(node)) {
        if (!batches_.empty() && batches_.back().backward == kNone) batches_.back().backward = i;
      } else if (number > 0) {
        if (batches_.empty() || batches_.back().backward != kNone) batches_.emplace_back();
        batches_.back().last_visit = visit = number;
      }
      visit_.push_back(visit);
      batch_.push_back(batches_.size());
    }
  }

  void find_uses() {
    uses_.resize(graph_.value_count());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Node& node = graph_.node(order_[i]);
      if (!launches(node.op)) continue;
      const bool is_late = node.phase != Phase::forward && node.phase != Phase::loss;
      const auto touch = [&](Value value) -> Use& {
        Use& use = uses_[layouts_[value.id].root.id];
        if (!is_late && use.first_backward == kNone) use.last_forward = i;
        if (is_late && use.first_backward == kNone) use.first_backward = i;
        return use;
      };
      for (const Value value : node.inputs) {
        if (layouts_[value.id].layout.immediate) continue;
        Use& use = touch(value);
        const bool is_known = !use.late_readers.empty() && use.late_readers.back() == order_[i];
        if (use.first_backward != kNone && !is_known) use.late_readers.push_back(order_[i]);
      }
      for (const Value value : node.outputs) {
        Use& use = touch(value);
        use.is_written_late = use.is_written_late || use.first_backward != kNone;
      }
    }
  }

  // In the order of their last use in forward.
  std::vector<Tensor> tensors_to_move() const {
    std::vector<bool> is_result(graph_.value_count());
    for (const Output& output : graph_.outputs()) is_result[layouts_[output.value.id].root.id] = true;
    for (const Update& update : graph_.updates()) is_result[layouts_[update.value.id].root.id] = true;
    std::vector<Tensor> tensors;
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (node.op == Op::input) continue;
      for (const Value value : node.outputs) {
        const Use& use = uses_[value.id];
        if (layouts_[value.id].root != value || layouts_[value.id].layout.immediate || is_result[value.id]) continue;
        if (use.last_forward == kNone || use.late_readers.empty() || use.is_written_late) continue;
        if (storage_type(graph_, value).bytes() < kLeastBytesOfCopy || batch_[use.last_forward] == 0) continue;
        const MicroBatch& batch = batches_[batch_[use.last_forward] - 1];
        const std::size_t visit = visit_[use.last_forward];
        const bool is_needed_soon = visit == batch.last_visit || use.first_backward <= batch.backward;
        if (batch.backward == kNone || use.last_forward > batch.backward || is_needed_soon) continue;
        tensors.push_back({value, use.last_forward, visit, batch.backward});
      }
    }
    std::ranges::stable_sort(tensors, {}, &Tensor::stored_behind);
    return tensors;
  }

  // Stores a group of tensors of one block after the last use of any of them. Returns the first tensor of the next
  // group.
  std::vector<Tensor>::const_iterator store(std::vector<Tensor>::const_iterator begin,
                                            std::vector<Tensor>::const_iterator all_end, std::vector<HostRead>& reads) {
    std::vector<Value> group;
    std::size_t bytes = 0;
    auto end = begin;
    for (; end != all_end && end->visit == begin->visit; ++end) {
      bytes += storage_type(graph_, end->storage).bytes();
      if (!group.empty() && bytes > kGroupBytes) break;
      group.push_back(end->storage);
    }
    const std::size_t behind = end[-1].stored_behind;
    graph_.set_insertion_before(order_[behind + 1]);
    graph_.set_phase(Phase::forward);
    graph_.set_scope(block_of(graph_.scope_name(graph_.node(order_[behind]))));
    const std::vector<Value> stored = store_group(graph_, group);
    for (std::size_t i = 0; i < stored.size(); ++i, ++begin) {
      Use& use = uses_[begin->storage.id];
      reads.push_back({.on_host = stored[i],
                       .storage = begin->storage,
                       .readers = std::move(use.late_readers),
                       .visit = begin->visit,
                       .first = use.first_backward,
                       .earliest = begin->backward});
    }
    return end;
  }

  Graph& graph_;
  const GraphSettings settings_;
  const std::vector<NodeId> order_;
  const std::vector<ValueLayout> layouts_;
  const BlockVisits visits_;
  std::vector<std::size_t> visit_;  // by position: of the last block that forward has entered
  std::vector<std::size_t> batch_;  // by position: how many micro-batches have entered a block
  std::vector<MicroBatch> batches_;
  std::vector<Use> uses_;  // by the value whose storage is used
};

}  // namespace

bool offload_activations(Graph& graph, const PassOptions& options) {
  return includes(options.offload, Offload::activations) && ActivationOffloader(graph).run();
}

}  // namespace ridgepoint
