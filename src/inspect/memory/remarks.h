// What a person must know to trust the figures, and what may avoid a failure of an allocation.
#pragma once

#include <string>

#include "inspect/memory/lifetimes.h"
#include "inspect/memory/report.h"
#include "inspect/memory/summary.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// Sets history_complete, incomplete_because and remarks of the report: whether the history is complete, and what was
// left out of the file. Its other figures are already there.
void add_remarks(const Snapshot& snapshot, const MemoryHistory& history, const Lifetimes& lifetimes,
                 HistorySummary& summary);

std::string advice_for(const OutOfMemoryEvent& failure, const SnapshotSettings& settings);

}  // namespace ridgepoint
