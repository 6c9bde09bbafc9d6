#include "inspect/memory/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "core/threads/parallel.h"
#include "inspect/memory/contents.h"
#include "inspect/memory/replay/driver_addresses.h"
#include "inspect/memory/replay/requests.h"
#include "memory/caching_allocator.h"

namespace ridgepoint {
namespace {

using Kind = RecordedRequest::Kind;

struct Outcome {
  MemoryUse use;
  std::uint64_t unused_bytes = 0;  // at the peak of allocated bytes
  std::uint64_t retries = 0;
  const RecordedRequest* failed = nullptr;  // the first request that did not fit

  bool fits() const { return failed == nullptr; }
};

// One run of the requests.
class Run {
 public:
  Run(const Snapshot& snapshot, const RecordedRequests& requests, const CachingRules& rules,
      std::optional<std::uint64_t> capacity_bytes)
      : requests_(requests),
        memory_(requests.segments, capacity_bytes),
        allocator_(memory_, capacity_bytes, rules),
        addresses_(requests.blocks) {
    for (std::size_t i = 1; i < snapshot.streams.size(); ++i) allocator_.add_stream(snapshot.streams[i].is_private());
  }

  Outcome run(const StopPoint& stop_point) {
    Outcome outcome;
    for (std::size_t i = 0; i < requests_.steps.size(); ++i) {
      stop_regularly(stop_point, i);
      const RecordedRequest& step = requests_.steps[i];
      try {
        apply(step);
      } catch (const OutOfMemory&) {
        outcome.failed = &step;
        break;
      }
    }
    outcome.use = allocator_.use();
    outcome.unused_bytes = unused_bytes_;
    outcome.retries = allocator_.retries();
    return outcome;
  }

 private:
  void apply(const RecordedRequest& step) {
    switch (step.kind) {
      case Kind::allocate: addresses_[step.block] = allocate(step); return;
      case Kind::attempt: allocator_.free(allocate(step)); return;
      case Kind::free: allocator_.free(addresses_[step.block]); return;
      case Kind::request_free:
        allocator_.request_free(addresses_[step.block]);
        requested_[step.block] = allocator_.waits();
        return;
      case Kind::complete_free:
        // Since then the allocator may have waited for all streams.
        if (const auto requested = requested_.extract(step.block);
            !requested.empty() && requested.mapped() == allocator_.waits())
          allocator_.complete_free(addresses_[step.block]);
        return;
      case Kind::empty_cache: allocator_.release_cached(); return;
    }
  }

  void* allocate(const RecordedRequest& step) {
    allocator_.set_stream(step.stream);
    void* address = allocator_.allocate(step.bytes, MemoryCategory::temporary, kNoNode);
    const MemoryUse use = allocator_.use();
    if (use.allocated_bytes > highest_bytes_) {
      highest_bytes_ = use.allocated_bytes;
      unused_bytes_ = use.reserved_bytes - use.allocated_bytes;
    }
    return address;
  }

  const RecordedRequests& requests_;
  DriverAddresses memory_;
  CachingAllocator allocator_;
  std::vector<void*> addresses_;                                // of each block
  std::unordered_map<std::uint32_t, std::uint64_t> requested_;  // blocks with a requested free: the waits before it
  std::uint64_t highest_bytes_ = 0, unused_bytes_ = 0;
};

class Replayer {
 public:
  Replayer(const Snapshot& snapshot, const RecordedRequests& requests, const ReplayOptions& options,
           std::optional<std::uint64_t> capacity_bytes, const StopPoint& stop_point)
      : snapshot_(snapshot),
        requests_(requests),
        options_(options),
        capacity_bytes_(capacity_bytes),
        stop_point_(stop_point) {}

  ReplayedSetting replay(const AllocatorSetting& setting) const {
    CachingRules rules = setting.rules;
    rules.orders_by_address = true;
    ReplayedSetting found;
    found.setting = setting.text;
    const Outcome unlimited = run(rules, std::nullopt);
    const Outcome limited = capacity_bytes_ ? run(rules, capacity_bytes_) : unlimited;
    if (capacity_bytes_) found.fits = limited.fits();
    const Outcome& shown = limited.fits() ? limited : unlimited;
    found.reserved_bytes = shown.use.peak_reserved_bytes;
    found.allocated_bytes = shown.use.peak_allocated_bytes;
    found.unused_bytes = shown.unused_bytes;
    found.retries = shown.retries;
    if (!limited.fits()) {
      found.failure = {limited.failed->event, limited.failed->bytes,
                       origin_names(snapshot_, limited.failed->origin).name};
    }
    if (options_.finds_least_capacity && unlimited.fits())
      found.least_capacity_bytes = least_capacity(rules, unlimited);
    return found;
  }

 private:
  Outcome run(const CachingRules& rules, std::optional<std::uint64_t> capacity_bytes) const {
    return Run(snapshot_, requests_, rules, capacity_bytes).run(stop_point_);
  }

  // Halves the way between what does not fit and what does. Segments are multiples of 1 MiB.
  std::optional<std::uint64_t> least_capacity(const CachingRules& rules, const Outcome& unlimited) const {
    const auto fits = [&](std::uint64_t bytes) { return run(rules, bytes).fits(); };
    const std::uint64_t step =
        rules.large_segment_bytes % kRoundLargeBytes == 0 ? kRoundLargeBytes : kRoundLargeBytes / 2;
    std::uint64_t most = round_up(unlimited.use.peak_reserved_bytes, step);
    // If a limit changes the allocator's decisions, the peak without a limit may be too little.
    constexpr int kMostTries = 16;
    for (int tries = 0; !fits(most); ++tries) {
      if (tries == kMostTries) return std::nullopt;
      most += round_up(std::max<std::uint64_t>(most / 16, rules.large_segment_bytes), step);
    }
    std::uint64_t least = unlimited.use.peak_requested_bytes / step * step;
    if (least == unlimited.use.peak_requested_bytes && least > 0) least -= step;
    while (most > least + step) {
      const std::uint64_t middle = (least + (most - least) / 2) / step * step;
      (fits(middle) ? most : least) = middle;
    }
    return most;
  }

  const Snapshot& snapshot_;
  const RecordedRequests& requests_;
  const ReplayOptions& options_;
  std::optional<std::uint64_t> capacity_bytes_;
  const StopPoint& stop_point_;
};

// What people try. A threshold for garbage collection counts only below a limit.
constexpr const char* kUsualSettings[] = {"default",
                                          "expandable_segments:True",
                                          "max_split_size_mb:64",
                                          "max_split_size_mb:256",
                                          "roundup_power2_divisions:8",
                                          "garbage_collection_threshold:0.8",
                                          "max_split_size_mb:256,garbage_collection_threshold:0.8"};

// The setting of the file; empty if the file has an unknown one.
std::optional<AllocatorSetting> recorded_setting(const SnapshotSettings& settings, std::vector<std::string>& remarks) {
  try {
    if (!settings.configuration.empty()) return allocator_setting(settings.configuration);
  } catch (const Error& error) {
    remarks.push_back(
        fmt::format("The file's own setting '{}' is left out: {}.", printable(settings.configuration), error.what()));
    return std::nullopt;
  }
  std::string text;
  if (settings.expandable_segments) text = "expandable_segments:True";
  if (settings.max_split_bytes)
    text += fmt::format("{}max_split_size_mb:{}", text.empty() ? "" : ",", *settings.max_split_bytes >> 20);
  return allocator_setting(text);
}

// The memory that the recorded run could reserve, if a request failed: the reserved and the free memory, or, if a limit
// below that refused the request, at least the reserved memory.
void take_capacity(const MemoryReport& report, const RecordedRequests& requests, MemoryReplay& replay) {
  for (const OutOfMemoryEvent& failure : report.out_of_memory) {
    const std::uint64_t needed = segment_bytes(block_bytes(failure.requested_bytes));
    const bool is_full = failure.device_free_bytes && *failure.device_free_bytes < needed;
    if (!is_full) continue;
    const std::uint64_t bytes = failure.held.levels.reserved_bytes + *failure.device_free_bytes;
    if (bytes < requests.recorded.reserved_bytes || bytes > replay.capacity_bytes.value_or(UINT64_MAX)) continue;
    replay.capacity_bytes = bytes;
    replay.capacity_from = MemoryReplay::CapacityFrom::free_at_failure;
  }
  if (report.out_of_memory.empty() || replay.capacity_bytes) return;
  replay.capacity_bytes = requests.recorded.reserved_bytes;
  replay.capacity_from = MemoryReplay::CapacityFrom::peak_before_failure;
}

std::vector<AllocatorSetting> settings_of(const Snapshot& snapshot, const ReplayOptions& options,
                                          MemoryReplay& replay) {
  if (!options.settings.empty()) return options.settings;
  std::vector<AllocatorSetting> settings;
  if (auto recorded = recorded_setting(snapshot.settings, replay.remarks)) {
    settings.push_back(std::move(*recorded));
    replay.begins_with_recorded = true;
  }
  for (const char* usual : kUsualSettings) {
    if (settings.empty() || settings.front().text != usual) settings.push_back(allocator_setting(usual));
  }
  return settings;
}

}  // namespace

AllocatorSetting allocator_setting(std::string_view text) {
  return {std::string(text.empty() ? "default" : text), parse_caching_rules(text)};
}

MemoryReplay replay_history(const Snapshot& snapshot, std::int64_t device, const MemoryAnalysis& analysis,
                            const ReplayOptions& options, const StopPoint& stop_point) {
  if (history_of(snapshot, device).size() == 0)
    throw_error(
        "device {} has no history to replay: the file has its last state alone. "
        "torch.cuda.memory._record_memory_history() before the first allocation records one",
        device);
  const RecordedRequests requests = requests_of(snapshot, device, analysis.lifetimes, options.without, stop_point);
  if (!options.without.empty() && requests.omitted_blocks == 0) {
    std::string categories;
    for (const MemoryShare& share : analysis.report.contents.categories)
      categories += fmt::format("{}{}", categories.empty() ? "" : ", ", share.name);
    throw_error(ErrorKind::usage,
                "no block of device {} has a frame with '{}', or this category; those at the peak are: {}", device,
                printable(options.without), categories);
  }
  MemoryReplay replay;
  replay.allocations = requests.allocations;
  replay.largest_bytes = requests.largest_bytes;
  replay.older_blocks = requests.older_blocks;
  replay.older_bytes = requests.older_bytes;
  replay.without = options.without;
  replay.omitted_blocks = requests.omitted_blocks;
  replay.omitted_bytes = requests.omitted_bytes;
  replay.recorded = requests.recorded;
  replay.has_failure = !analysis.report.out_of_memory.empty();
  if (options.capacity_bytes) {
    replay.capacity_bytes = options.capacity_bytes;
    replay.capacity_from = MemoryReplay::CapacityFrom::option;
  } else {
    take_capacity(analysis.report, requests, replay);
  }
  const std::vector<AllocatorSetting> settings = settings_of(snapshot, options, replay);
  replay.settings.resize(settings.size());
  const Replayer replayer(snapshot, requests, options, replay.capacity_bytes, stop_point);
  const auto count = static_cast<std::int64_t>(settings.size());
  parallel_for_workers(count, worker_count(count, 1), [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      replay.settings[index] = replayer.replay(settings[index]);
    }
  });
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::optional<std::uint64_t>& bytes = replay.settings[i].least_capacity_bytes;
    if (bytes && (!replay.least || *bytes < *replay.settings[*replay.least].least_capacity_bytes)) replay.least = i;
  }
  return replay;
}

}  // namespace ridgepoint
