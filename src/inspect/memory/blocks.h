// The blocks of a history: which are live at a moment, and for which result each was allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "inspect/memory/history.h"

namespace ridgepoint {

// The live blocks of a replay: the allocating event of each address.
class LiveBlocks {
 public:
  void apply(const MemoryEvent& event, std::size_t index) {
    if (event.kind == MemoryEventKind::alloc) events_[event.address] = index;
    if (event.kind == MemoryEventKind::free) events_.erase(event.address);
  }

  // The numbers of the allocating events, in order.
  std::vector<std::size_t> events() const;

 private:
  std::unordered_map<std::uint64_t, std::size_t> events_;
};

// The numbers of the events that allocated what is live at the moment, in order.
std::vector<std::size_t> live_blocks_at(const MemoryHistory& history, std::size_t moment);

// By event: the result of its node for which it allocates, the first one of this size that no earlier block is for.
// Empty for other events, and for workspaces.
std::vector<std::optional<std::uint32_t>> outputs_of_blocks(const MemoryHistory& history, const Graph& graph);

}  // namespace ridgepoint
