// Writes a memory snapshot that pytorch.org/memory_viz and Python's pickle open: a pickle of protocol 4 with the
// opcodes that the viewer knows (MemoryViz.js), or the same document as JSON where the path ends in .json.
// read_snapshot.h reads the file back; the figures of what is read are those of what was written.
#pragma once

#include <filesystem>
#include <vector>

#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// The blocks of a segment in the order of their addresses, with inactive ones where it is free. Throws Error (usage) if
// blocks overlap or leave the segment.
std::vector<SnapshotBlock> tiled(const SnapshotSegment& segment);

// Every live block lies in a live segment at every event. The file has the frame, the caller and the phase of each
// origin. It appears whole or not at all. Throws Error if it cannot be written, and Error (usage) if the blocks of a
// segment overlap or leave it, or if a number names no origin, frame or category.
void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot);

}  // namespace ridgepoint
