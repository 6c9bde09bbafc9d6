// Analyses a history of memory, device by device. docs/commands/snapshot.md says how each figure is found. A run of
// ours, a prediction (a run on the null device) and a file differ only in who made the Snapshot.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "inspect/memory/lifetimes.h"
#include "inspect/memory/report.h"
#include "interchange/snapshot/snapshot.h"
#include "ridgepoint/core/stop_point.h"

namespace ridgepoint {

// The devices with segments or events, in order.
std::vector<std::int64_t> devices_of(const Snapshot& snapshot);

// Of a device; empty where the snapshot has none.
const MemoryHistory& history_of(const Snapshot& snapshot, std::int64_t device);

struct MemoryAnalysis {
  MemoryReport report;
  Lifetimes lifetimes;
};

// `work`: the device's work in an iteration of the same program, if it was observed. `range`: the part of the history
// that counts; categories are inferred from the whole history. Throws Error (usage) for a range that begins after the
// last event.
MemoryAnalysis analyse_memory(const Snapshot& snapshot, std::int64_t device, const StopPoint& stop_point = {},
                              const std::optional<DeviceWork>& work = {}, const std::optional<MemoryRange>& range = {});

}  // namespace ridgepoint
