// The longest sequence for which forward and backward of one call of attention fit into the memory of a device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "inspect/attention/benchmark.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {

// Whether runs at the limit and above it confirmed the prediction.
enum class Confirmation : std::uint8_t { not_run, agrees, differs };
std::string_view name(Confirmation confirmation);

struct AttentionLimit {
  AttentionProblem problem;       // with the longest sequence that fits; 0 tokens if none fits
  Record run;                     // the device, and the status of the search
  std::int64_t memory_bytes = 0;  // the memory of the search: the limit, or what the device has available
  // The predicted peaks of that sequence; 0 if none fits.
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  // The request that fails with the next sequence, the segment that it needs, and the free memory at that moment.
  std::int64_t requested_bytes = 0;
  std::int64_t segment_bytes = 0;
  std::int64_t free_bytes = 0;
  Confirmation confirmation = Confirmation::not_run;
  std::string remark;  // why it was not run, or what the runs found instead
};

// Called before each trial with its description; returning false stops the search.
using LimitWatcher = std::function<bool(std::string_view what)>;

// Bisection over multiples of `granularity`. A null device predicts each trial, with the memory that is left on the
// real device after a short run has loaded context, libraries and kernels. If a longer run loads more, the search is
// repeated with the remaining memory. The sequence found fits and the next multiple does not; a longer sequence may
// still fit, because fragmentation does not grow steadily. Both sequences are then run once, except on the null device,
// on a CPU without a memory limit, and if a run would take long. If the search fails, the record has the status. Empty
// if the watcher stopped it.
std::optional<AttentionLimit> find_attention_limit(const AttentionConfig& config, std::int64_t granularity,
                                                   const LimitWatcher& watch = {});

}  // namespace ridgepoint
