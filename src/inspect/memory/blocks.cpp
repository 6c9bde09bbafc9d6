#include "inspect/memory/blocks.h"

#include <algorithm>

namespace ridgepoint {

std::vector<std::size_t> LiveBlocks::events() const {
  std::vector<std::size_t> events;
  for (const auto& [address, index] : events_) events.push_back(index);
  std::ranges::sort(events);
  return events;
}

std::vector<std::size_t> live_blocks_at(const MemoryHistory& history, std::size_t moment) {
  LiveBlocks live;
  for (std::size_t i = 0; i < moment; ++i) live.apply(history.events[i], i);
  return live.events();
}

std::vector<std::optional<std::uint32_t>> outputs_of_blocks(const MemoryHistory& history, const Graph& graph) {
  std::vector<std::optional<std::uint32_t>> outputs(history.events.size());
  std::uint32_t node_id = kNoNode;
  std::vector<bool> is_taken;
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    const MemoryEvent& event = history.events[i];
    if (event.kind != MemoryEventKind::alloc || event.node == kNoNode) continue;
    const Node& node = graph.node(NodeId{event.node});
    if (event.node != node_id) is_taken.assign(node.outputs.size(), false);
    node_id = event.node;
    if (event.category == MemoryCategory::workspace) continue;
    for (std::uint32_t output = 0; output < node.outputs.size(); ++output) {
      if (is_taken[output] || graph.type(node.outputs[output]).bytes() != event.requested_bytes) continue;
      is_taken[output] = true;
      outputs[i] = output;
      break;
    }
  }
  return outputs;
}

}  // namespace ridgepoint
