// A history as a memory snapshot, for pytorch.org/memory_viz, Python's tools and `ridgepoint snapshot`.
#pragma once

#include "inspect/memory/measure_memory.h"
#include "interchange/snapshot/write_snapshot.h"

namespace ridgepoint {

// The whole history: the inputs, the warm-up and the iterations that count. The frames of a block are the op with the
// module and the line of the model's code that made it, and the phase. Iterations and phases are annotations. On the
// null device, where times have no meaning, each event is a microsecond. The run must have a history.
SnapshotDocument to_snapshot(const MemoryRun& run);

}  // namespace ridgepoint
