// The analysis of one device's history of memory, from a run, a prediction or a file. Sizes are bytes, times are
// microseconds since 1970 and 0 where there are none. A moment is a number of events: at moment m the first m events
// have happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint {

// allocated: in blocks that the program holds. active: these, and blocks that were freed while a stream may still use
// them. reserved: in segments, free blocks included. requested: allocated before rounding.
struct MemoryLevels {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t active_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t requested_bytes = 0;
};

struct MemoryMoment {
  std::size_t moment = 0;
  std::int64_t time_us = 0;
};

// The live blocks of one category or one origin.
struct MemoryShare {
  std::string name;     // of a category, or of an origin as OriginNames has it
  std::string library;  // of an origin
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

// Blocks of one size, made for the same result of the same op in the same module; layers are added up. Of files of
// PyTorch the op is the function of the first frame that is not hidden, and phase, module and formula are empty.
struct MemoryGroup {
  std::string category = {};
  std::string phase = {};   // of what made them
  std::string module = {};  // layers.*.attn; of inputs their name
  std::string op = {};
  std::string source = {};   // the line that makes it, attention.cpp:23
  std::string formula = {};  // of the bytes, 4 B H S^2; empty for a workspace
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;           // of all together
  std::uint64_t rounding_bytes = 0;  // of `bytes`, over what was requested

  std::uint64_t block_bytes() const { return bytes / blocks; }
};

// What is allocated at a moment.
struct MemoryContents {
  MemoryMoment at = {};
  MemoryLevels levels = {};
  std::vector<MemoryShare> categories = {};  // largest first
  std::vector<MemoryShare> origins = {};
  std::vector<MemoryGroup> groups = {};

  std::uint64_t bytes_of(std::string_view category) const {
    for (const MemoryShare& share : categories) {
      if (share.name == category) return share.bytes;
    }
    return 0;
  }
  // What the allocator adds: of allocated bytes, and reserved bytes that are not allocated.
  std::uint64_t rounding_bytes() const { return levels.allocated_bytes - levels.requested_bytes; }
  std::uint64_t unused_bytes() const {
    return levels.reserved_bytes > levels.allocated_bytes ? levels.reserved_bytes - levels.allocated_bytes : 0;
  }
};

// One block of a model, the middle one of those that run forward: layers.16.
struct BlockContents {
  std::string name = {};
  // The tensors that the block saves for backward, when backward begins, or without backward at the end of the
  // iteration. Modules have their numbers. Only groups and categories are set.
  MemoryContents saved = {};
  // The most bytes at one moment of the iteration, in blocks and as requested; empty without backward.
  std::optional<std::uint64_t> gradient_bytes = {}, requested_gradient_bytes = {};

  std::uint64_t requested_saved_bytes() const {
    std::uint64_t bytes = 0;
    for (const MemoryGroup& group : saved.groups) bytes += group.bytes - group.rounding_bytes;
    return bytes;
  }
};

// One occurrence of an annotation.
struct MemoryPhase {
  std::string name;
  std::size_t depth = 0;  // 0: in no other one
  MemoryMoment begin;
  MemoryMoment end;
  std::uint64_t begin_bytes = 0;  // allocated
  std::uint64_t end_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::size_t peak = 0;    // the moment
  bool is_counted = true;  // not of the warm-up
  bool is_whole = true;    // not cut by the range that was asked for
};

// The peak over all counted occurrences of a phase of a training step; the first of equal moments.
struct PhasePeak {
  std::string phase;
  MemoryContents contents;
};

struct OutOfMemoryEvent {
  MemoryMoment when;
  std::uint64_t requested_bytes = 0;
  std::optional<std::uint64_t> device_free_bytes;
  std::string origin;  // what asked
  MemoryContents held;
  std::string advice;  // what may avoid it
};

// Segments that were given back to the device immediately before it was asked for another one.
struct AllocatorRetries {
  std::uint64_t count = 0;
  std::uint64_t segments = 0;
  std::uint64_t bytes = 0;
  std::uint64_t before_oom = 0;  // of `count`
};

struct Fragmentation {
  std::uint64_t at_peak_bytes = 0;         // reserved, not active, when allocated is at its peak
  std::uint64_t at_end_bytes = 0;          // free in segments at the end
  std::uint64_t free_blocks = 0;           // at the end
  std::uint64_t largest_free_bytes = 0;    // of them
  std::uint64_t unused_segment_bytes = 0;  // of them, in segments without a live block
};

// Blocks of one size and origin whose number grew from the first counted repetition to the last.
struct MemoryLeak {
  std::string origin;
  std::string library;
  std::uint64_t block_bytes = 0;
  std::uint64_t blocks = 0;  // how many more
  std::uint64_t bytes = 0;
};

struct MemoryLeaks {
  // annotations: measured at the ends of an annotation that repeats. cycles: between two rises of memory. window: from
  // the first event to the last. none: nothing repeats, and memory was empty at the begin.
  enum class Basis : std::uint8_t { none, annotations, cycles, window };
  Basis basis = Basis::none;
  std::string name;  // of the annotation
  std::size_t repetitions = 0;
  std::size_t compared_from = 0;  // the repetition, from 1, whose end is compared with the last one's
  std::size_t grew = 0;           // steps from one repetition to the next, from compared_from on, with more at the end
  std::uint64_t leaked_bytes = 0;
  std::vector<MemoryLeak> groups;  // largest first; empty where nothing leaks
};

// The work of the device in an iteration that was observed for this.
struct DeviceWork {
  double busy_ms = 0;  // in which at least one kernel ran
  double wall_ms = 0;
};

// The repeated rise and fall of allocated memory. The viewer at pytorch.org/memory_viz draws one event beside the
// other, so a release of many blocks at once looks like a long fall; durations are therefore given in time, in events
// and in the viewer's steps.
struct Sawtooth {
  // allocator_bound: the time goes to requests to the device for segments. compute_bound: the device is always busy.
  // host_bound: it waits for the host. Where its work was not observed, the pace: one direction takes more than four
  // times the time of the other, or they are balanced. unknown: there are no times. none: there are no cycles.
  enum class Verdict : std::uint8_t {
    none,
    unknown,
    allocator_bound,
    compute_bound,
    host_bound,
    released_in_bursts,
    filled_in_bursts,
    balanced
  };
  std::size_t cycles = 0;
  double height_bytes = 0;
  // Means. From the low to the high, and from the high to the low.
  double rise_ms = 0, fall_ms = 0;  // 0 without times, as allocator_share
  double rise_events = 0, fall_events = 0;
  double rise_steps = 0, fall_steps = 0;  // of the axis of pytorch.org/memory_viz (ViewerAxis)
  std::uint64_t segment_requests = 0;     // of all events that count
  std::uint64_t retries = 0;              // of them: directly after segments were given back
  double allocator_share = 0;             // of the time, before events of segments
  std::optional<double> busy_share;       // of the time, in which the device was busy
  Verdict verdict = Verdict::none;
};

// The part of a history that the user asked for: microseconds after the first event, or events if there are no times.
struct MemoryRange {
  std::int64_t begin = 0, end = 0;
};

// The part of a history that counts: all of it, the part after the warm-up, or a range that the user asked for.
struct MemoryWindow {
  MemoryMoment begin, end;
  bool is_range = false;
};

struct MemoryReport {
  std::int64_t device = 0;
  std::uint64_t events = 0;
  bool has_times = false;
  std::int64_t begin_us = 0, end_us = 0;
  std::uint64_t segments = 0;  // at the end
  std::uint64_t blocks = 0;    // live at the end

  MemoryWindow window;
  MemoryLevels start, end;
  MemoryLevels peak;        // each at its own moment
  MemoryContents contents;  // when allocated is at its peak
  bool categories_inferred = false;
  bool has_modules = false;  // groups have modules and phases

  std::vector<MemoryPhase> phases;                // in the order of their begins
  std::vector<PhasePeak> phase_peaks;             // in the order in which they first begin
  std::optional<MemoryContents> before_backward;  // where the phases of backward begin for the first time
  std::optional<BlockContents> block;             // of a run of ours with blocks that saves something for backward
  Fragmentation fragmentation;
  MemoryLeaks leaks;
  std::vector<OutOfMemoryEvent> out_of_memory;
  AllocatorRetries retries;
  Sawtooth sawtooth;

  bool history_complete = false;
  std::vector<std::string> incomplete_because;  // sentences
  std::vector<std::string> remarks;             // what was left out of the file, and doubts; sentences

  // The phase of the peak; empty where none of a training step is marked.
  std::string_view peak_phase() const {
    for (const PhasePeak& of_phase : phase_peaks) {
      if (of_phase.contents.at.moment == contents.at.moment) return of_phase.phase;
    }
    return {};
  }
};

}  // namespace ridgepoint
