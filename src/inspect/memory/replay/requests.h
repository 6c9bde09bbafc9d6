// The requests of a history without their addresses, so that any allocator can be asked for them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "inspect/memory/lifetimes.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

struct RecordedRequest {
  // request_free and complete_free: of a block that another stream still used. attempt: a request that failed in the
  // recorded run; its block is freed at once. empty_cache: the program called torch.cuda.empty_cache().
  enum class Kind : std::uint8_t { allocate, free, request_free, complete_free, attempt, empty_cache };
  std::uint64_t bytes = 0;  // before rounding
  std::uint32_t block = 0;  // a number for each block
  std::uint32_t event = 0;  // after so many events of the history
  std::uint32_t origin = kNoOrigin;
  std::uint16_t stream = 0;  // index in Snapshot::streams
  Kind kind = Kind::allocate;
};

struct RecordedSegment {
  std::uint64_t address = 0, bytes = 0;
};

struct RecordedRequests {
  std::vector<RecordedRequest> steps;
  std::vector<RecordedSegment> segments;  // that the recorded allocator took from the device, in that order
  std::size_t blocks = 0;
  std::uint64_t allocations = 0;
  std::uint64_t largest_bytes = 0;  // of a request
  // Blocks that are older than the history: they are asked for first, in the order of their addresses.
  std::uint64_t older_blocks = 0, older_bytes = 0;
  // Blocks that were left out, and the most bytes that they had together.
  std::uint64_t omitted_blocks = 0, omitted_bytes = 0;
  MemoryLevels recorded;  // the peak of each level, of the whole history
};

// Leaves out the blocks of the category `without` or, if that names no category, the blocks with marked frames; empty:
// none.
RecordedRequests requests_of(const Snapshot& snapshot, std::int64_t device, const Lifetimes& lifetimes,
                             std::string_view without, const StopPoint& stop_point);

}  // namespace ridgepoint
