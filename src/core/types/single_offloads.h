// The names of which a value of --offload is a list.
#pragma once

#include <array>

#include "ridgepoint/core/offload.h"

namespace ridgepoint {

inline constexpr std::array kSingleOffloads = {Offload::none, Offload::optimizer, Offload::parameters,
                                               Offload::activations, Offload::automatic};

}  // namespace ridgepoint
