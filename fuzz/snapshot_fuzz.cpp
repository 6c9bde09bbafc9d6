// The reader of memory snapshots and their analysis. For any bytes the reader throws Error or returns a snapshot, and
// the figures of a snapshot do not contradict one another.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "inspect/memory/analyse.h"
#include "interchange/snapshot/reader/read_snapshot.h"
#include "memory_file.h"
#include "require.h"
#include "ridgepoint/core/error.h"

namespace {

void analyse(const ridgepoint::Snapshot& snapshot) {
  for (const std::int64_t device : ridgepoint::devices_of(snapshot)) {
    const ridgepoint::MemoryReport report = ridgepoint::analyse_memory(snapshot, device).report;
    const bool counts_all = !snapshot.settings.counted_from_us;
    RIDGEPOINT_REQUIRE(!counts_all || report.peak.allocated_bytes >= report.start.allocated_bytes);
    RIDGEPOINT_REQUIRE(report.contents.levels.allocated_bytes == report.peak.allocated_bytes);
    RIDGEPOINT_REQUIRE(report.contents.at.moment <= report.events);
    RIDGEPOINT_REQUIRE(report.history_complete == report.incomplete_because.empty());
    for (const ridgepoint::MemoryPhase& phase : report.phases) {
      RIDGEPOINT_REQUIRE(phase.begin.moment <= phase.end.moment && phase.end.moment <= report.events);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    analyse(ridgepoint::read_snapshot(file.path()));
  } catch (const ridgepoint::Error&) {
  }
  return 0;
}
