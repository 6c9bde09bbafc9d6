// What would have avoided an allocation that failed.
#pragma once

#include <string>

#include "inspect/snapshot/report.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

std::string advice_for(const SnapshotOutOfMemory& failure, const SnapshotSettings& settings);

}  // namespace ridgepoint
