// What a person must know to trust the figures: whether the history is complete, and what was left out of the file.
#pragma once

#include "inspect/snapshot/lifetimes.h"
#include "inspect/snapshot/report.h"
#include "inspect/snapshot/timeline.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// Sets history_complete, incomplete_because and remarks; the other figures of the report are already there.
void add_remarks(const Snapshot& snapshot, const SnapshotHistory& history, const Lifetimes& lifetimes,
                 const SnapshotTimeline& timeline, SnapshotReport& report);

}  // namespace ridgepoint
