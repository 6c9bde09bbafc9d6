// Places blocks one after another, each at the lowest offset where it meets no block that is live at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/lifetimes.h"

namespace ridgepoint {

class LowestGap {
 public:
  // `lifetimes` must outlive this. Offsets begin at `floor`.
  LowestGap(std::span<const Lifetime> lifetimes, std::size_t floor) : lifetimes_(lifetimes), floor_(floor) {}

  // Returns the offset of the block, which later blocks avoid. Takes time in proportion to the blocks placed below it.
  std::size_t place(std::uint32_t block);
  // The highest end of a block; the floor without one.
  std::size_t end() const { return end_ > floor_ ? end_ : floor_; }
  // The number of placed blocks that all calls of place() looked at.
  std::uint64_t visits() const { return visits_; }

 private:
  struct Placed {
    std::size_t offset;
    std::size_t end;
    std::uint32_t first, last;
  };

  std::span<const Lifetime> lifetimes_;
  std::size_t floor_;
  std::size_t end_ = 0;
  std::uint64_t visits_ = 0;
  std::vector<Placed> placed_;  // in order of offset
};

}  // namespace ridgepoint
