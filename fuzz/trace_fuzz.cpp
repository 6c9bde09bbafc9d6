// The reader of profilers' traces. For any bytes it throws Error or returns a trace whose indices lie in its lists and
// whose events are in order.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "interchange/trace/read_trace.h"
#include "memory_file.h"
#include "require.h"
#include "ridgepoint/core/error.h"

namespace {

void check(const ridgepoint::Trace& trace, const std::vector<ridgepoint::TraceEvent>& events, std::size_t notes) {
  std::int64_t last_ns = INT64_MIN;
  for (const ridgepoint::TraceEvent& event : events) {
    RIDGEPOINT_REQUIRE(event.name < trace.names.size());
    RIDGEPOINT_REQUIRE(event.track < trace.tracks.size());
    RIDGEPOINT_REQUIRE(event.note < notes);
    RIDGEPOINT_REQUIRE(event.duration_ns >= 0 && event.end_ns() >= event.start_ns);
    RIDGEPOINT_REQUIRE(event.start_ns >= last_ns);
    last_ns = event.start_ns;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    const ridgepoint::Trace trace = ridgepoint::read_trace(file.path());
    check(trace, trace.activities, trace.notes.size());
    check(trace, trace.calls, trace.notes.size());
    check(trace, trace.marks, trace.works.size());
    check(trace, trace.flow_begins, trace.notes.size());
    check(trace, trace.flow_ends, trace.notes.size());
  } catch (const ridgepoint::Error&) {
  }
  return 0;
}
