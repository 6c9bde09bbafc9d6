// How origins are named for people.
#pragma once

#include <cstdint>
#include <string>

#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

struct OriginNames {
  std::string name;    // "linear (nn/functional.py:2317)"; "(no frames)"
  std::string caller;  // the same of the program's own line; empty where the name is that line
};

OriginNames origin_names(const Snapshot& snapshot, std::uint32_t origin);

}  // namespace ridgepoint
