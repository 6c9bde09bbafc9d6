#include "plan/lowest_gap.h"

#include <algorithm>

namespace ridgepoint {

std::size_t LowestGap::place(std::uint32_t block) {
  const Lifetime& lifetime = lifetimes_[block];
  std::size_t offset = floor_;
  std::size_t visited = 0;
  for (const Placed& other : placed_) {
    ++visited;
    if (other.offset >= offset + lifetime.bytes) break;
    if (other.first <= lifetime.last && lifetime.first <= other.last) offset = std::max(offset, other.end);
  }
  visits_ += visited;
  const Placed placed{offset, offset + lifetime.bytes, lifetime.first, lifetime.last};
  placed_.insert(std::ranges::upper_bound(placed_, offset, {}, &Placed::offset), placed);
  end_ = std::max(end_, placed.end);
  return offset;
}

}  // namespace ridgepoint
