// Shared by the passes that offload tensors to the host: groups of tensors that are copied before their use and after
// it.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "ops/layout.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// A group is closed when it has so many bytes: 1 ms of copies in each direction, beside which the start of a copy
// counts for nothing.
inline constexpr std::size_t kGroupBytes = std::size_t{48} << 20;
// How many groups ahead of its use a group's copy begins. Groups differ in size by a factor of ten, so several must be
// on their way for both directions to be busy: with 1 (and 2 for kInFlightOfGroup) the predicted step of an 8B model
// with its states on the host takes a fifth longer, and needs as much memory.
inline constexpr std::size_t kAhead = 3;
// A smaller tensor of a block stays on the device: its copy takes 20 us at 50 GB/s, about as long as the launches
// around it.
inline constexpr std::size_t kLeastBytesOfCopy = std::size_t{1} << 20;

// Copies tensors to the host, at the insertion point. Few copies to the host run at the same time, so that the memory
// of the tensors becomes free.
std::vector<Value> store_group(Graph& graph, const std::vector<Value>& values);

// Lets the copies on the host update inputs instead of the values that were copied. `stored` has the copy of each
// value.
void redirect_updates(Graph& graph, const std::map<Value, Value>& stored);

// The block that runs at each launch. Transfers and gathers of weights have none, because they stand before their
// block. Blocks are numbered from 1 in the order in which they run; a block has another number in backward and
// recomputation than in forward.
struct BlockVisits {
  explicit BlockVisits(const Graph& graph);
  static bool is_backward(const Node& node) { return node.phase == Phase::recompute || node.phase == Phase::backward; }

  // By position in the schedule. Numbers are 0 outside of blocks, in the optimizer, and at transfers and gathers.
  std::vector<std::size_t> numbers;
  std::vector<bool> is_for_gather;  // of the weights of a block: the gather, and casts of what it gathers
};

// Launches that will read a copy from the host instead of one storage.
struct HostRead {
  Value on_host = {};
  Value storage = {};                // what the launches read before
  std::vector<NodeId> readers = {};  // in order
  std::size_t visit = 0;             // a group has reads of one
  std::size_t first = 0;             // the position of the first reader
  std::size_t earliest = 0;          // the position of the node before which the copy may begin
};

// Lets each reader read a copy from the host. `order` and `layouts` are those of the graph when positions were found.
void fetch_ahead(Graph& graph, const std::vector<NodeId>& order, const std::vector<ValueLayout>& layouts,
                 std::vector<HostRead> reads);

}  // namespace ridgepoint
