// What a memory snapshot says of one device. Sizes are bytes, times are microseconds since 1970 and 0 where the file
// has none. A moment is a number of events: at moment m the first m events have happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridgepoint {

// allocated: in blocks that the program holds. active: these, and blocks that were freed while a stream may still use
// them. reserved: in segments, free blocks included.
struct MemoryLevels {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t active_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};

struct MemoryMoment {
  std::size_t moment = 0;
  std::int64_t time_us = 0;
};

// The live blocks of one category or one origin.
struct MemoryShare {
  std::string name;    // of a category; of an origin its first line that is not hidden: "linear (nn/functional.py:125)"
  std::string caller;  // of an origin: the first line outside PyTorch and Python
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

struct MemoryContents {
  std::vector<MemoryShare> categories;  // largest first
  std::vector<MemoryShare> origins;
  std::uint64_t requested_bytes = 0;  // less than the blocks have, by rounding
};

// One occurrence of an annotation.
struct SnapshotPhase {
  std::string name;
  std::size_t depth = 0;  // 0: in no other one
  MemoryMoment begin;
  MemoryMoment end;
  MemoryMoment peak;
  std::uint64_t begin_bytes = 0;  // allocated
  std::uint64_t end_bytes = 0;
  std::uint64_t peak_bytes = 0;
};

struct SnapshotOutOfMemory {
  MemoryMoment when;
  MemoryLevels levels;
  std::uint64_t requested_bytes = 0;
  std::optional<std::uint64_t> device_free_bytes;
  std::string origin;  // what asked
  MemoryContents held;
  std::string advice;  // what would have avoided it
};

// Segments that were given back to the device immediately before it was asked for another one.
struct SnapshotRetries {
  std::uint64_t count = 0;
  std::uint64_t segments = 0;
  std::uint64_t bytes = 0;
  std::uint64_t before_oom = 0;  // of `count`
};

struct SnapshotFragmentation {
  std::uint64_t at_peak_bytes = 0;         // reserved, not active, when allocated is at its peak
  std::uint64_t at_end_bytes = 0;          // free in segments at the end
  std::uint64_t free_blocks = 0;           // at the end
  std::uint64_t largest_free_bytes = 0;    // of them
  std::uint64_t unused_segment_bytes = 0;  // of them, in segments without a live block
  std::uint64_t rounding_bytes = 0;        // allocated less requested, at the peak
};

// Blocks of one size from one origin that became more from the first repetition that counts to the last.
struct SnapshotLeak {
  std::string origin;
  std::string caller;
  std::uint64_t block_bytes = 0;
  std::uint64_t blocks = 0;  // how many more
  std::uint64_t bytes = 0;
};

struct SnapshotLeaks {
  // annotations: measured at the ends of an annotation that repeats. cycles: between two rises of memory. window: from
  // the first event to the last. none: nothing repeats, and memory was empty at the begin.
  enum class Basis { none, annotations, cycles, window };
  Basis basis = Basis::none;
  std::string name;  // of the annotation
  std::size_t repetitions = 0;
  std::size_t compared_from = 0;  // the repetition, from 1, whose end is compared with the last one's
  std::size_t grew = 0;           // steps from one repetition to the next, from compared_from on, with more at the end
  std::uint64_t leaked_bytes = 0;
  std::vector<SnapshotLeak> groups;  // largest first; empty where nothing leaks
};

// The rise and fall of allocated memory that repeats.
struct SnapshotSawtooth {
  enum class Verdict { none, allocator_bound, released_in_bursts, filled_in_bursts, balanced };
  std::size_t cycles = 0;
  double rise_us = 0, fall_us = 0;  // means; 0 where the file has no times
  double rise_events = 0, fall_events = 0;
  double height_bytes = 0;
  double allocator_share = 0;  // of the time, in requests to the device for segments
  Verdict verdict = Verdict::none;
  std::string evidence;
};

struct SnapshotReport {
  std::int64_t device = 0;
  std::uint64_t events = 0;
  std::int64_t begin_us = 0, end_us = 0;
  std::uint64_t segments = 0;  // at the end
  std::uint64_t blocks = 0;    // live at the end

  MemoryLevels start, end;
  MemoryLevels peak;     // each at its own moment
  MemoryLevels at_peak;  // all when allocated is at its peak
  MemoryMoment peak_moment;
  MemoryContents contents;  // at the peak
  bool categories_inferred = false;

  std::vector<SnapshotPhase> phases;  // in the order of their begins
  SnapshotFragmentation fragmentation;
  SnapshotLeaks leaks;
  std::vector<SnapshotOutOfMemory> out_of_memory;
  SnapshotRetries retries;
  SnapshotSawtooth sawtooth;

  bool history_complete = false;
  std::vector<std::string> incomplete_because;  // sentences
  std::vector<std::string> remarks;             // what was left out of the file, and doubts; sentences
};

}  // namespace ridgepoint
