// The sizes of blocks whose file gives only the requested bytes. PyTorch's allocator rounds a request up to 512 bytes
// and, in a segment for large blocks, gives the whole free block away where at most 1 MiB of it would be left
// (c10/cuda/CUDACachingAllocator.cpp, should_split); what is free at an address follows from its neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/snapshot/lifetimes.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// Replaces the sizes of lives that are not exact. `older_addresses` are those of lives.older.
void set_block_sizes(const SnapshotHistory& history, const std::vector<const SnapshotSegment*>& segments,
                     const SnapshotSettings& settings, const std::vector<std::uint64_t>& older_addresses,
                     const StopPoint& stop_point, Lifetimes& lives);

}  // namespace ridgepoint
