#include "plan/lifetimes.h"

#include <algorithm>

#include "core/block_bytes.h"
#include "core/checked.h"

namespace ridgepoint {

std::vector<Lifetime> lifetimes_of(const ExecutionPlan& plan, std::span<const std::size_t> workspace_bytes) {
  const auto end = static_cast<std::uint32_t>(plan.steps.size());
  std::vector<Lifetime> lifetimes;
  lifetimes.reserve(plan.buffers.size() + plan.steps.size());
  for (const Buffer& buffer : plan.buffers) lifetimes.push_back({block_bytes(buffer.bytes), 0, end});
  for (std::uint32_t step = 0; step < end; ++step) {
    for (const BufferId id : plan.steps[step].allocate) lifetimes[id].first = step;
    for (const BufferId id : plan.steps[step].release) lifetimes[id].last = step;
    const std::size_t bytes = workspace_bytes[step];
    lifetimes.push_back({bytes == 0 ? 0 : block_bytes(bytes), step, step});
  }
  std::int64_t sum = 0;
  for (const Lifetime& lifetime : lifetimes)
    sum = checked_sum({sum, static_cast<std::int64_t>(lifetime.bytes)}, "the memory of all buffers");
  return lifetimes;
}

std::vector<std::size_t> live_bytes_by_step(std::span<const Lifetime> lifetimes) {
  std::uint32_t last = 0;
  for (const Lifetime& lifetime : lifetimes) last = std::max(last, lifetime.last);
  // First the change at each step; subtraction may wrap, and the sums are right all the same.
  std::vector<std::size_t> live(std::size_t{last} + 2);
  for (const Lifetime& lifetime : lifetimes) {
    live[lifetime.first] += lifetime.bytes;
    live[std::size_t{lifetime.last} + 1] -= lifetime.bytes;
  }
  for (std::size_t step = 1; step < live.size(); ++step) live[step] += live[step - 1];
  live.pop_back();
  return live;
}

std::size_t liveness_lower_bound(std::span<const Lifetime> lifetimes) {
  return std::ranges::max(live_bytes_by_step(lifetimes));
}

}  // namespace ridgepoint
