// The segments that the caching allocator asks a device for. The sizes are those of PyTorch's allocator
// (c10/cuda/CUDACachingAllocator.h, get_allocation_size), so they also explain the files that PyTorch writes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding.h"

namespace ridgepoint {

enum class SegmentPool : std::uint8_t { small, large };

// A request up to this size, rounded to a block, uses the small pool. A block of the large pool is split only where
// more than this would remain.
inline constexpr std::size_t kLargestSmallBytes = std::size_t{1} << 20;
inline constexpr std::size_t kSmallSegmentBytes = std::size_t{2} << 20;  // segments of the small pool
inline constexpr std::size_t kSharedLargeBytes = std::size_t{10} << 20;  // large requests below this share segments ...
inline constexpr std::size_t kLargeSegmentBytes = std::size_t{20} << 20;  // ... of this size
inline constexpr std::size_t kRoundLargeBytes = std::size_t{2} << 20;     // segments of one request are a multiple

constexpr SegmentPool pool_of(std::size_t rounded_bytes) {
  return rounded_bytes <= kLargestSmallBytes ? SegmentPool::small : SegmentPool::large;
}

// The segment that a request takes. `rounded_bytes` must be at most SIZE_MAX - kRoundLargeBytes.
constexpr std::size_t segment_bytes(std::size_t rounded_bytes, std::size_t shared_bytes = kLargeSegmentBytes) {
  if (pool_of(rounded_bytes) == SegmentPool::small) return kSmallSegmentBytes;
  return rounded_bytes < kSharedLargeBytes ? shared_bytes : round_up(rounded_bytes, kRoundLargeBytes);
}

// Whether a segment is of the large pool.
constexpr bool is_large_segment(std::size_t bytes) { return bytes > kSmallSegmentBytes; }

}  // namespace ridgepoint
