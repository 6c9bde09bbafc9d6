// What a person must know to trust the figures: whether the history is complete, and what was left out of the file.
#pragma once

#include "interchange/snapshot/snapshot.h"
#include "measure/memory/snapshot/lifetimes.h"
#include "measure/memory/snapshot/report.h"
#include "measure/memory/snapshot/timeline.h"

namespace ridgepoint {

// Sets history_complete, incomplete_because and remarks; the other figures of the report are already there.
void add_remarks(const Snapshot& snapshot, const SnapshotHistory& history, const Lifetimes& lifetimes,
                 const SnapshotTimeline& timeline, SnapshotReport& report);

}  // namespace ridgepoint
