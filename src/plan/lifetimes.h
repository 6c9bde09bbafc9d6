// When the memory of a run is live: one lifetime for each request of a plan. Time counts steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace ridgepoint {

// A block of `bytes` (rounded, core/block_bytes.h) that is live from the step `first` to the step `last`, both
// included. A lifetime of 0 bytes needs no memory.
struct Lifetime {
  std::size_t bytes = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  bool contains(std::size_t step) const { return first <= step && step <= last; }
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

// The lifetimes of a plan's buffers, by id, and after them those of the workspaces, by step; `workspace_bytes` has one
// entry a step, 0 for none. Persistent buffers live from step 0 to the end, which is plan.steps.size(); outputs live
// from the step that allocates them to the end. Throws Error (usage) if the sum of all overflows 63 bits.
std::vector<Lifetime> lifetimes_of(const ExecutionPlan& plan, std::span<const std::size_t> workspace_bytes);

// The index of a step's workspace among the lifetimes of a plan. A buffer's index is its id.
inline std::uint32_t workspace_index(const ExecutionPlan& plan, std::size_t step) {
  return static_cast<std::uint32_t>(plan.buffers.size() + step);
}

// The bytes that are live at each step, from 0 to the last step of any lifetime.
std::vector<std::size_t> live_bytes_by_step(std::span<const Lifetime> lifetimes);

// The most bytes that are live at once: no placement and no allocator can need less.
std::size_t liveness_lower_bound(std::span<const Lifetime> lifetimes);

}  // namespace ridgepoint
