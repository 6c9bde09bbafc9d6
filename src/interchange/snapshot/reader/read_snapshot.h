// Reads a memory snapshot: what torch.cuda.memory._dump_snapshot wrote (a pickle of protocol 2 to 5), the same document
// as JSON, an old list of segments, or any of these in gzip. The first bytes decide. The file may have any size: it is
// read once from begin to end, and what is kept is 12 bytes an event and each address, request, text and frame once.
// `on_progress` is called with the share of the file that is read, and may throw to stop.
//
// The file is taken as hostile: nothing of a pickle is run, and depth, references, sizes and numbers are limited. What
// is unknown or incomplete is counted in Snapshot::omissions and left out. Throws Error, with the path and the byte,
// for a file that is damaged or is no snapshot.
#pragma once

#include <filesystem>

#include "core/files/byte_stream.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

Snapshot read_snapshot(const std::filesystem::path& path, const ByteStream::OnProgress& on_progress = nullptr,
                       const SnapshotReadOptions& options = {});

}  // namespace ridgepoint
