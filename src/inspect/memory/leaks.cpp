// Memory that grows from repetition to repetition.
#include <algorithm>
#include <map>
#include <utility>

#include "inspect/memory/contents.h"

namespace ridgepoint {
namespace {

using Basis = MemoryLeaks::Basis;

// The blocks that are allocated at `last` and were not at `first`, by origin and size, less the blocks that only
// replace others.
std::vector<MemoryLeak> grown(const Snapshot& snapshot, const Lifetimes& lifetimes, std::size_t first, std::size_t last,
                              const StopPoint& stop_point) {
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::int64_t> changes;
  lifetimes.for_each(stop_point, [&](const BlockLife& life) {
    const int change = (life.is_allocated(last) ? 1 : 0) - (life.is_allocated(first) ? 1 : 0);
    if (change != 0) changes[{life.origin, life.bytes}] += change;
  });
  std::vector<MemoryLeak> groups;
  for (const auto& [key, blocks] : changes) {
    if (blocks <= 0) continue;
    const auto [origin, bytes] = key;
    const OriginNames names = origin_names(snapshot, origin);
    const auto count = static_cast<std::uint64_t>(blocks);
    groups.push_back({names.name, names.library, bytes, count, bytes * count});
  }
  std::ranges::stable_sort(groups, std::ranges::greater{}, &MemoryLeak::bytes);
  return groups;
}

}  // namespace

MemoryLeaks find_leaks(const Snapshot& snapshot, const Repetitions& repetitions, std::uint64_t start_bytes,
                       const Lifetimes& lifetimes, const StopPoint& stop_point) {
  MemoryLeaks leaks;
  leaks.basis = repetitions.basis;
  leaks.name = repetitions.name;
  leaks.repetitions = repetitions.each.size();
  if (repetitions.basis == Basis::none) return leaks;
  const std::vector<Repetition>& each = repetitions.each;
  Repetition base{0, 0, each.front().begin, start_bytes};
  if (repetitions.basis != Basis::window) {
    const std::size_t first = each.size() >= 3 ? 1 : 0;
    base = each[first];
    leaks.compared_from = first + 1;
    for (std::size_t i = first + 1; i < each.size(); ++i)
      leaks.grew += each[i].end_bytes > each[i - 1].end_bytes ? 1 : 0;
    const std::size_t steps = each.size() - first - 1;
    if (2 * leaks.grew < steps || leaks.grew == 0) return leaks;
  }
  if (each.back().end_bytes <= base.end_bytes) return leaks;
  leaks.leaked_bytes = each.back().end_bytes - base.end_bytes;
  leaks.groups = grown(snapshot, lifetimes, base.end, each.back().end, stop_point);
  return leaks;
}

}  // namespace ridgepoint
