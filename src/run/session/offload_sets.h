// Which tensors a run may keep on the host in its mode.
#pragma once

#include <vector>

#include "ridgepoint/ops/compile.h"

namespace ridgepoint {

// What of the set a run in the mode has; Offload::automatic as it is.
constexpr Offload offload_in(Mode mode, Offload set) {
  if (set == Offload::automatic) return set;
  Offload kept = Offload::none;
  if (mode == Mode::step && includes(set, Offload::optimizer)) kept = kept | Offload::optimizer;
  if (includes(set, Offload::parameters)) kept = kept | Offload::parameters;
  if (runs_backward(mode) && includes(set, Offload::activations)) kept = kept | Offload::activations;
  return kept;
}

// The sets of which one may be chosen (Offload::automatic), without the empty one; a set comes behind those that it
// contains.
inline std::vector<Offload> offload_sets(Mode mode) {
  std::vector<Offload> sets;
  for (const Offload set : kAllOffloads) {
    const bool is_set = set != Offload::none && set != Offload::automatic;
    if (is_set && offload_in(mode, set) == set) sets.push_back(set);
  }
  return sets;
}

}  // namespace ridgepoint
