// Which sets of tensors a run may keep on the host, where that is chosen (Offload::automatic).
#pragma once

#include <vector>

#include "ridgepoint/compile.h"

namespace ridgepoint {

// Of the mode, without the empty set; a set comes behind those that it contains.
inline std::vector<Offload> offload_sets(Mode mode) {
  std::vector<Offload> sets;
  for (const Offload set : kAllOffloads) {
    const bool is_chosen = set == Offload::none || set == Offload::automatic;
    const bool has_states = mode == Mode::step || !includes(set, Offload::optimizer);
    const bool has_saved = runs_backward(mode) || !includes(set, Offload::activations);
    if (!is_chosen && has_states && has_saved) sets.push_back(set);
  }
  return sets;
}

}  // namespace ridgepoint
