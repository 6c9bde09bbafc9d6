#include "inspect/snapshot/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/block_bytes.h"
#include "core/text/units.h"

namespace ridgepoint {
namespace {

// The segment that PyTorch's allocator asks for (c10/cuda/CUDACachingAllocator.h, get_allocation_size).
std::uint64_t segment_bytes(std::uint64_t requested_bytes) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  const std::uint64_t block = block_bytes(requested_bytes);
  if (block <= kMiB) return 2 * kMiB;
  if (block < 10 * kMiB) return 20 * kMiB;
  return (block + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
}

std::string fragmented(std::uint64_t inactive, const SnapshotSettings& settings) {
  const std::string found = fmt::format(
      "{} is reserved and not active, more than the request, but no free block was large enough: memory is "
      "fragmented.",
      format_bytes(inactive));
  if (settings.expandable_segments) {
    return found + " Expandable segments are on, so the free memory belongs to other streams or pools.";
  }
  return found +
         " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True would have avoided it; max_split_size_mb also helps.";
}

}  // namespace

std::string advice_for(const SnapshotOutOfMemory& failure, const SnapshotSettings& settings) {
  const std::uint64_t inactive =
      failure.levels.reserved_bytes - std::min(failure.levels.reserved_bytes, failure.levels.active_bytes);
  if (inactive >= block_bytes(failure.requested_bytes)) return fragmented(inactive, settings);
  const std::uint64_t needed = segment_bytes(failure.requested_bytes);
  const std::string largest =
      failure.held.categories.empty()
          ? ""
          : fmt::format(" The largest part held is {} ({}).", failure.held.categories.front().name,
                        format_bytes(failure.held.categories.front().bytes));
  if (!failure.device_free_bytes) {
    return fmt::format("The file does not say what the device had free; the request needs a segment of {}.{}",
                       format_bytes(needed), largest);
  }
  if (*failure.device_free_bytes >= needed) {
    return fmt::format(
        "The device had {} free, enough for the segment of {}: a limit below the device's memory refused it "
        "(set_per_process_memory_fraction, a memory limit).{}",
        format_bytes(*failure.device_free_bytes), format_bytes(needed), largest);
  }
  const std::uint64_t missing = needed - *failure.device_free_bytes;
  if (missing <= inactive) {
    return fmt::format(
        "The segment of {} lacks {}, and {} is reserved and not active: expandable segments, or "
        "torch.cuda.empty_cache() "
        "before it, would have avoided it.{}",
        format_bytes(needed), format_bytes(missing), format_bytes(inactive), largest);
  }
  return fmt::format(
      "The request needs a segment of {} and is {} short (free on the device: {}; reserved and not active: "
      "{}).{}",
      format_bytes(needed), format_bytes(missing - inactive), format_bytes(*failure.device_free_bytes),
      format_bytes(inactive), largest);
}

}  // namespace ridgepoint
