#include "runtime/execution/plan_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "memory/arena_allocator.h"
#include "memory/caching_allocator.h"
#include "plan/arena.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kNamedGroups = 3;  // in the message of a shortage

struct Owner {
  NodeId node;
  MemoryCategory category;
};

Owner owner_of(const Graph& graph, const ExecutionPlan& plan, std::size_t index) {
  if (index >= plan.buffers.size()) return {plan.steps[index - plan.buffers.size()].node, MemoryCategory::workspace};
  const Buffer& buffer = plan.buffers[index];
  return {graph.producer(buffer.value), buffer.category};
}

}  // namespace

std::string place_of(const Graph& graph, const Node& node) {
  if (node.op == Op::input) return "for the " + std::string(name(input_role(node))) + " '" + input_name(node) + "'";
  const std::string& scope = graph.scope_name(node);
  return "in " + std::string(name(node.phase)) + " at " + std::string(name(node.op)) +
         (scope.empty() ? "" : " of " + scope);
}

std::vector<MemoryShortage::Blocks> largest_blocks(const Graph& graph, const ExecutionPlan& plan,
                                                   std::span<const Lifetime> lifetimes, std::size_t most) {
  const std::vector<std::size_t> live = live_bytes_by_step(lifetimes);
  const auto peak = static_cast<std::size_t>(std::ranges::max_element(live) - live.begin());
  std::map<std::tuple<Op, std::size_t, MemoryCategory>, MemoryShortage::Blocks> groups;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].bytes == 0 || !lifetimes[i].contains(peak)) continue;
    const Owner owner = owner_of(graph, plan, i);
    const Node& node = graph.node(owner.node);
    MemoryShortage::Blocks& group = groups[{node.op, lifetimes[i].bytes, owner.category}];
    if (group.count++ > 0) continue;
    group.bytes = lifetimes[i].bytes;
    group.category = name(owner.category);
    group.place = place_of(graph, node);
  }
  std::vector<MemoryShortage::Blocks> largest;
  for (auto& [key, group] : groups) largest.push_back(std::move(group));
  std::ranges::stable_sort(largest, std::greater<>(), [](const auto& group) { return group.count * group.bytes; });
  largest.resize(std::min(largest.size(), most));
  return largest;
}

std::unique_ptr<Allocator> make_allocator(AllocatorKind kind, const Graph& graph, const ExecutionPlan& plan,
                                          const std::vector<Lifetime>& lifetimes, Device& device, MemoryTrace* trace) {
  if (kind == AllocatorKind::caching) {
    std::unique_ptr<Allocator> allocator = make_caching_allocator(device, device.total_memory_bytes());
    allocator->set_trace(trace);
    return allocator;
  }
  try {
    // Only between GPUs are tensors that lie one behind another sent as one.
    const bool is_gpu = device.facts().compute_capability.has_value();
    Arena arena = place_in_arena(lifetimes, is_gpu ? blocks_of_sums(graph, plan) : AdjacentBlocks());
    return std::make_unique<ArenaAllocator>(device, std::move(arena), device.total_memory_bytes(), trace);
  } catch (const OutOfMemory& error) {
    MemoryShortage shortage = error.shortage();
    shortage.largest = largest_blocks(graph, plan, lifetimes, kNamedGroups);
    throw OutOfMemory(std::move(shortage));
  }
}

}  // namespace ridgepoint
