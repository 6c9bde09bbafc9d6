// Analyses a memory snapshot, device by device. docs/snapshot.md says how each figure is found.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/snapshot/report.h"
#include "interchange/snapshot/snapshot.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint {

// The devices with segments or events, in order.
std::vector<std::int64_t> devices_of(const Snapshot& snapshot);

SnapshotReport analyse_device(const Snapshot& snapshot, std::int64_t device, const StopPoint& stop_point = {});

}  // namespace ridgepoint
