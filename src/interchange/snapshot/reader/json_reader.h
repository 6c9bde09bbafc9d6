// Reads a snapshot that is JSON, entry by entry. Throws Error where it is not JSON, with the place.
#pragma once

#include "interchange/snapshot/reader/byte_stream.h"
#include "interchange/snapshot/reader/collector.h"

namespace ridgepoint {

// Returns the document, which is an open container of the collector.
SnapshotValue read_snapshot_json(ByteStream& bytes, SnapshotCollector& collector);

}  // namespace ridgepoint
