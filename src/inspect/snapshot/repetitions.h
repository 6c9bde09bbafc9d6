// What a program repeats, found by its annotations or by the rise and fall of its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "inspect/snapshot/report.h"
#include "inspect/snapshot/sawtooth.h"
#include "inspect/snapshot/timeline.h"

namespace ridgepoint {

struct Repetition {
  std::size_t begin = 0;  // moments
  std::size_t peak = 0;
  std::size_t end = 0;
  std::uint64_t end_bytes = 0;  // allocated
};

struct Repetitions {
  SnapshotLeaks::Basis basis = SnapshotLeaks::Basis::none;
  std::string name;
  std::vector<Repetition> each;  // in order; they do not overlap
};

// Of the annotations that occur at least twice, those that cover most events; numbers at the end of a name ("step 7")
// do not count. Otherwise the cycles. Otherwise the whole history as one repetition, if memory was in use before it.
Repetitions find_repetitions(const SnapshotTimeline& timeline, const std::vector<MemoryCycle>& cycles,
                             const Lifetimes& lifetimes, std::size_t events);

}  // namespace ridgepoint
