// What would have avoided an allocation that failed.
#pragma once

#include <string>

#include "interchange/snapshot/snapshot.h"
#include "measure/memory/snapshot/report.h"

namespace ridgepoint {

std::string advice_for(const SnapshotOutOfMemory& failure, const SnapshotSettings& settings);

}  // namespace ridgepoint
