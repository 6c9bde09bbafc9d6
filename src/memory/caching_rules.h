// The rules of PyTorch's caching allocator that PYTORCH_CUDA_ALLOC_CONF changes, as of PyTorch 2.11
// (c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.cpp). The defaults are PyTorch's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "memory/segment_sizes.h"

namespace ridgepoint {

struct CachingRules {
  // One segment a stream and pool, which grows and shrinks by pages of 2 MiB, or of large_segment_bytes.
  bool has_expandable_segments = false;
  std::size_t max_split_bytes = SIZE_MAX;                // blocks of this size and more are never split
  std::size_t max_excess_bytes = kLargeSegmentBytes;     // and are used for requests that are less than this smaller
  std::size_t large_segment_bytes = kLargeSegmentBytes;  // of large requests below kSharedLargeBytes
  // Above this share of the limit, cached segments that were not used for long are given back; 0: never.
  double collection_threshold = 0;
  // Into how many steps the way from one power of two to the next is divided, to which requests are rounded up: of
  // sizes below 2 MiB, below 4 MiB and so on, the last of all sizes from 32 GiB. 0: multiples of 512 bytes.
  std::array<std::size_t, 16> divisions{};
  bool has_divisions = false;
  // Of equal free blocks the one at the lowest address is used, as PyTorch does, not the one of the oldest segment.
  bool orders_by_address = false;

  // `bytes` must be below 2^62.
  std::size_t rounded_bytes(std::size_t bytes) const {
    return has_divisions ? divided_bytes(bytes) : block_bytes(bytes);
  }
  std::size_t page_bytes(SegmentPool pool) const {
    return pool == SegmentPool::small ? kSmallSegmentBytes : large_segment_bytes;
  }
  bool should_split(SegmentPool pool, std::size_t rounded_bytes, std::size_t remaining_bytes) const {
    if (pool == SegmentPool::small || has_expandable_segments) return remaining_bytes >= kBlockBytes;
    return rounded_bytes < max_split_bytes && remaining_bytes > kLargestSmallBytes;
  }
  // Whether a request may take a free block that is large enough.
  bool may_take(std::size_t free_bytes, std::size_t rounded_bytes) const {
    if (rounded_bytes < max_split_bytes) return free_bytes < max_split_bytes;
    return free_bytes - rounded_bytes < max_excess_bytes;
  }

 private:
  std::size_t divided_bytes(std::size_t bytes) const;
};

// Of "expandable_segments:True,max_split_size_mb:128"; empty, or "default", are the defaults. Settings that change no
// block are accepted. Throws Error (usage), which names the settings that there are.
CachingRules parse_caching_rules(std::string_view configuration);

}  // namespace ridgepoint
