// What a program repeats, found by its annotations or by the rise and fall of its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "inspect/memory/report.h"
#include "inspect/memory/sawtooth.h"
#include "inspect/memory/summary.h"

namespace ridgepoint {

struct Repetition {
  std::size_t begin = 0;  // moments
  std::size_t peak = 0;
  std::size_t end = 0;
  std::uint64_t end_bytes = 0;  // allocated
};

struct Repetitions {
  MemoryLeaks::Basis basis = MemoryLeaks::Basis::none;
  std::string name;
  std::vector<Repetition> each;  // in order; they do not overlap
};

// Among annotations that occur at least twice, those that cover the most events; numbers at the end of a name ("step
// 7") do not count. A file of ours says where its warm-up ends: the repetitions are its iterations after that.
Repetitions annotated_repetitions(const Snapshot& snapshot, const HistorySummary& summary);

// The cycles. Without cycles, everything that counts is one repetition, if memory was in use before it.
Repetitions repetitions_by_level(const HistorySummary& summary, const std::vector<MemoryCycle>& cycles);

}  // namespace ridgepoint
