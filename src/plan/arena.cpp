#include "plan/arena.h"

#include <utility>

#include "plan/pack.h"

namespace ridgepoint {

Arena place_in_arena(std::vector<Lifetime> lifetimes) {
  Packing packing = pack(lifetimes);
  return {std::move(lifetimes), std::move(packing.offsets), packing.bytes};
}

}  // namespace ridgepoint
