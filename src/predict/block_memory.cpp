#include "predict/block_memory.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "core/checked.h"
#include "core/rounding.h"
#include "ir/scope.h"
#include "ops/node_key.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kOutside = SIZE_MAX;  // of every block

class Accountant {
 public:
  Accountant(const Graph& graph, std::span<const std::string> blocks)
      : graph_(graph), live_of_(blocks.size()), has_begun_backward_(blocks.size() + 1) {
    for (std::size_t i = 0; i < blocks.size(); ++i) index_.emplace(blocks[i], i);
    memory_.saved_bytes.resize(blocks.size());
    memory_.running_bytes.resize(blocks.size());
    memory_.outside_bytes.resize(blocks.size() + 1);
  }

  void add(const MemoryEvent& event) {
    if (event.node == kNoNode) return;
    const Node& node = graph_.node(NodeId{event.node});
    const std::size_t bytes = block_bytes(event.requested_bytes);
    if (event.kind == MemoryEventKind::alloc) {
      enter(node);
      allocate(node, bytes);
    } else if (event.kind == MemoryEventKind::free) {
      release(node, bytes);
    }
  }

  BlockMemory finish() {
    if (!has_left_forward_) leave_forward();
    return std::move(memory_);
  }

 private:
  std::size_t block_index(const Node& node) const {
    if (node.op == Op::input) return kOutside;
    const auto found = index_.find(block_of(graph_.scope_name(node)));
    return found == index_.end() ? kOutside : found->second;
  }

  // The block whose forward phase makes the node's results.
  std::size_t forward_block(const Node& node) const {
    return node.phase == Phase::forward ? block_index(node) : kOutside;
  }

  // Notes the block that runs. Outside of blocks, notes how many blocks have saved values that are not read yet.
  void enter(const Node& node) {
    own_ = node.phase == Phase::optimizer ? kOutside : block_index(node);
    switch (node.phase) {
      case Phase::forward:
      case Phase::loss:
        if (own_ != kOutside) saved_blocks_ = own_ + 1;
        return;
      case Phase::recompute:
      case Phase::backward:
        if (!has_left_forward_) leave_forward();
        if (own_ == kOutside) return;
        saved_blocks_ = own_;
        has_begun_backward_[own_] = true;
        return;
      case Phase::optimizer:  // updates may stand in backward
        if (has_begun_backward_.front()) saved_blocks_ = 0;
    }
  }

  void leave_forward() {
    has_left_forward_ = true;
    memory_.saved_bytes = memory_.kept_bytes = live_of_;
    saved_blocks_ = live_of_.size();
  }

  void allocate(const Node& node, std::size_t bytes) {
    live_ += bytes;
    if (const std::size_t block = forward_block(node); block != kOutside) {
      live_of_[block] += bytes;
      live_of_blocks_ += bytes;
    }
    if (own_ != kOutside) {
      std::size_t& most = memory_.running_bytes[own_];
      most = std::max(most, live_ - live_of_blocks_ + live_of_[own_]);
    } else {
      std::size_t& most = memory_.outside_bytes[saved_blocks_];
      most = std::max(most, live_ - live_of_blocks_);
    }
  }

  void release(const Node& node, std::size_t bytes) {
    live_ -= bytes;
    const std::size_t block = forward_block(node);
    if (block == kOutside) return;
    live_of_[block] -= bytes;
    live_of_blocks_ -= bytes;
    if (!has_left_forward_ || has_begun_backward_[block]) return;
    memory_.kept_bytes[block] = live_of_[block];
    if (!has_begun_backward_[block + 1]) memory_.saved_bytes[block] = live_of_[block];
  }

  const Graph& graph_;
  std::map<std::string, std::size_t, std::less<>> index_;
  BlockMemory memory_;
  std::size_t live_ = 0;
  std::size_t live_of_blocks_ = 0;        // allocated by forward phases of blocks
  std::vector<std::size_t> live_of_;      // the same by block
  std::vector<bool> has_begun_backward_;  // by block; never of the one after the last
  bool has_left_forward_ = false;
  std::size_t own_ = kOutside;
  std::size_t saved_blocks_ = 0;  // for what is outside
};

// Calls visit(node, cost) for every recomputed node. The costs of equal nodes are computed once.
template <typename Visitor>
void visit_recomputed(const Graph& graph, const Visitor& visit) {
  std::unordered_map<std::string, Cost> costs;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::recompute) continue;
    const auto [known, is_new] = costs.try_emplace(typed_key(graph, node));
    if (is_new) known->second = cost(graph, node);
    visit(node, known->second);
  }
}

}  // namespace

BlockMemory block_memory_of(const Graph& graph, std::span<const std::string> blocks, const MemoryTrace& trace) {
  Accountant accountant(graph, blocks);
  for (std::size_t i = 0; i < trace.size(); ++i) accountant.add(trace[i]);
  return accountant.finish();
}

std::size_t live_bytes(std::span<const BlockMemory> policies, std::span<const std::uint8_t> choice) {
  const auto outside = [&](std::size_t blocks) {
    std::size_t least = SIZE_MAX;  // the policies have this in common; a fused node may differ
    for (const BlockMemory& policy : policies) least = std::min(least, policy.outside_bytes[blocks]);
    return least;
  };
  std::size_t saved = 0;   // of the blocks before the one before
  std::size_t before = 0;  // of the block before, at least
  std::size_t most = outside(0);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const BlockMemory& policy = policies[choice[i]];
    most = std::max(most, saved + before + policy.running_bytes[i]);
    if (i > 0) saved += policies[choice[i - 1]].saved_bytes[i - 1];
    before = policy.kept_bytes[i];
    most = std::max(most, saved + before + outside(i + 1));
  }
  return most;
}

Cost recomputation(const Graph& graph) {
  Cost sum;
  visit_recomputed(graph, [&](const Node&, const Cost& cost) {
    sum.flops = checked_sum({sum.flops, cost.flops}, "the recomputed operations");
    sum.bytes = checked_sum({sum.bytes, cost.bytes}, "the bytes of recomputation");
  });
  return sum;
}

std::vector<double> recompute_cost_by_block(const Graph& graph, std::span<const std::string> blocks,
                                            double flops_per_byte) {
  std::map<std::string_view, double> costs;
  visit_recomputed(graph, [&](const Node& node, const Cost& cost) {
    costs[block_of(graph.scope_name(node))] +=
        std::max(static_cast<double>(cost.bytes), static_cast<double>(cost.flops) / flops_per_byte);
  });
  std::vector<double> by_block;
  for (const std::string& block : blocks) by_block.push_back(costs[block]);
  return by_block;
}

}  // namespace ridgepoint
