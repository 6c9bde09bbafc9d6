// Replays the requests of a memory snapshot with PyTorch's allocator, under other settings and with less memory.
// docs/commands/snapshot.md says which results are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/memory/analyse.h"
#include "memory/caching_rules.h"

namespace ridgepoint {

struct AllocatorSetting {
  std::string text;  // as PYTORCH_CUDA_ALLOC_CONF has it; "default"
  CachingRules rules;
};
// Throws Error (usage), as parse_caching_rules().
AllocatorSetting allocator_setting(std::string_view text);

struct ReplayOptions {
  std::vector<AllocatorSetting> settings = {};  // empty: the file's own, and those that people try
  std::optional<std::uint64_t> capacity_bytes = {};
  std::string without = {};          // a category, or what the reader marked
  bool finds_least_capacity = true;  // which takes about ten more replays of each setting
};

struct ReplayedSetting {
  std::string setting;
  // The peak of each, under the capacity where the requests fit, otherwise without a limit.
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t unused_bytes = 0;  // reserved, not allocated, when allocated is at its peak
  std::uint64_t retries = 0;       // of requests, after cached memory was given back
  std::optional<bool> fits = {};   // empty without a capacity
  std::optional<std::uint64_t> least_capacity_bytes = {};
  // The first request that does not fit.
  struct Failure {
    std::uint32_t event = 0;
    std::uint64_t bytes = 0;
    std::string origin;
  };
  std::optional<Failure> failure = {};
};

struct MemoryReplay {
  enum class CapacityFrom : std::uint8_t { nothing, option, free_at_failure, peak_before_failure };
  CapacityFrom capacity_from = CapacityFrom::nothing;
  std::optional<std::uint64_t> capacity_bytes;
  std::vector<ReplayedSetting> settings;
  bool begins_with_recorded = false;  // the first setting is the file's own
  std::optional<std::size_t> least;   // the setting that needs least, the first of equals
  std::uint64_t allocations = 0, largest_bytes = 0;
  std::uint64_t older_blocks = 0, older_bytes = 0;  // than the history
  std::string without;
  std::uint64_t omitted_blocks = 0, omitted_bytes = 0;  // by `without`
  MemoryLevels recorded;                                // the peak of each level in the file
  bool has_failure = false;                             // a request failed in the file
  std::vector<std::string> remarks;
};

// Throws Error where the device has no history, or `without` leaves nothing out.
MemoryReplay replay_history(const Snapshot& snapshot, std::int64_t device, const MemoryAnalysis& analysis,
                            const ReplayOptions& options, const StopPoint& stop_point = {});

}  // namespace ridgepoint
