// The longest sequence of which a call of attention, forward and backward, fits into a device's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "measure/attention/benchmark.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

// Whether running on either side of the limit found what was predicted.
enum class Confirmation : std::uint8_t { not_run, agrees, differs };
std::string_view name(Confirmation confirmation);

struct AttentionLimit {
  AttentionProblem problem;       // with the longest sequence that fits; of 0 tokens where none does
  Record run;                     // of the device, and how the search ended
  std::int64_t memory_bytes = 0;  // that the search had: the limit, or what is available of the device
  // Of that sequence, as planned with that memory; 0 where none fits. What is reserved and not allocated at once is
  // what the allocator could not use again.
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  // The request of the next sequence that fails, the segment it would take and what is free then.
  std::int64_t requested_bytes = 0;
  std::int64_t segment_bytes = 0;
  std::int64_t free_bytes = 0;
  Confirmation confirmation = Confirmation::not_run;
  std::string remark;  // why it was not run, or what was found instead
};

// Called before each trial with what it is; false stops the search.
using LimitWatcher = std::function<bool(std::string_view what)>;

// By bisection over multiples of `granularity` on a null device that stands in for the configuration's, with the memory
// that is available there once a short sequence has run, so that what the context, libraries and kernels take is taken
// already; where a longer one makes them take more and does not fit for it, the search is repeated with the rest. The
// sequence found fits and the next multiple does not. (Memory in use grows with the sequence, but what an allocator
// wastes need not: where they nearly balance, a longer sequence still may fit.) Both are then run once on the device
// itself, unless it computes nothing, its memory is shared with the host and not limited, or the run would take long.
// What befalls the search becomes the record's status. Empty when the watcher stopped it.
std::optional<AttentionLimit> find_attention_limit(const AttentionConfig& config, std::int64_t granularity,
                                                   const LimitWatcher& watch = {});

}  // namespace ridgepoint
