#include "plan/arena.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "plan/pack.h"

namespace ridgepoint {
namespace {

// One block in place of those of a group.
Lifetime joined(const std::vector<Lifetime>& lifetimes, const std::vector<std::uint32_t>& group) {
  Lifetime all = lifetimes[group.front()];
  all.bytes = 0;
  for (const std::uint32_t i : group) {
    all.bytes += lifetimes[i].bytes;
    all.first = std::min(all.first, lifetimes[i].first);
    all.last = std::max(all.last, lifetimes[i].last);
  }
  return all;
}

}  // namespace

AdjacentBlocks blocks_of_sums(const Graph& graph, const ExecutionPlan& plan) {
  AdjacentBlocks groups;
  std::set<BufferId> placed;
  for (const PlanStep& step : plan.steps) {
    if (graph.node(step.node).op != Op::all_reduce) continue;
    std::map<DType, std::vector<std::uint32_t>> by_type;
    for (const Operand& operand : step.inputs) {
      if (operand.buffer == kNoBuffer || plan.buffers[operand.buffer].persistent) continue;
      const TensorType type{operand.layout.dtype, operand.layout.shape};
      const bool fills_buffer = operand.offset_bytes == 0 && plan.buffers[operand.buffer].bytes == type.bytes();
      if (fills_buffer && placed.insert(operand.buffer).second) by_type[type.dtype].push_back(operand.buffer);
    }
    for (auto& [dtype, group] : by_type) {
      if (group.size() > 1) groups.push_back(std::move(group));
    }
  }
  return groups;
}

Arena place_in_arena(std::vector<Lifetime> lifetimes, const AdjacentBlocks& adjacent) {
  std::vector<Lifetime> blocks = lifetimes;
  for (const std::vector<std::uint32_t>& group : adjacent) {
    for (const std::uint32_t i : group) blocks[i].bytes = 0;
    blocks[group.front()] = joined(lifetimes, group);
  }
  Packing packing = pack(blocks);
  for (const std::vector<std::uint32_t>& group : adjacent) {
    std::size_t offset = packing.offsets[group.front()];
    for (const std::uint32_t i : group) {
      packing.offsets[i] = offset;
      offset += lifetimes[i].bytes;
    }
  }
  return {std::move(lifetimes), std::move(packing.offsets), packing.bytes};
}

}  // namespace ridgepoint
