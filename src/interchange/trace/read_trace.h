// Reads a profiler's trace. Chrome trace JSON, as PyTorch's profiler (Kineto) and this program write it, plain or in
// gzip, old forms and new ones; an nsys export in SQLite. The first bytes decide. The file may have any size: it is
// read once from begin to end, and what is kept is 40 bytes an event that analysis needs.
//
// The file is taken as hostile. What is whole in a damaged file is used, and what is not is counted in Trace::faults.
// Throws Error, with the path, for a file that is no trace, saying what it is.
#pragma once

#include <filesystem>

#include "core/files/byte_stream.h"
#include "interchange/trace/trace.h"

namespace ridgepoint {

Trace read_trace(const std::filesystem::path& path, const ByteStream::OnProgress& on_progress = nullptr);

}  // namespace ridgepoint
