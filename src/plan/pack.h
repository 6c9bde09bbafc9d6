// Packs blocks of memory with known lifetimes into one range of addresses, as small as it can (dynamic storage
// allocation, offline). The smallest range is NP-hard to find; the lower bound of any is the most live bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/lifetimes.h"

namespace ridgepoint {

struct Packing {
  std::vector<std::size_t> offsets;  // of each lifetime, in bytes from the start of the range
  std::size_t bytes = 0;             // of the range
};

// Blocks that are live at the same step do not overlap. The same lifetimes give the same packing on every machine; the
// work is bounded by a count, not by a time. Sums of all bytes must not overflow.
Packing pack(std::span<const Lifetime> lifetimes);

}  // namespace ridgepoint
