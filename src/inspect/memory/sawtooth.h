// The rise and fall of allocated memory: its turning points, and the verdict on the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "inspect/memory/lifetimes.h"
#include "inspect/memory/report.h"
#include "inspect/memory/summary.h"

namespace ridgepoint {

// A moment at which memory turns from rising to falling or back.
struct TurningPoint {
  MemoryMoment at;
  std::uint64_t allocated_bytes = 0;
};

// A rise, from the last moment of a low to the first moment of a high, and the fall beside it, from the last moment of
// a high to the first moment of a low.
struct MemoryCycle {
  TurningPoint begin;       // the low, when it is left
  TurningPoint peak_begin;  // the high, when it is reached
  TurningPoint peak_end;    // the high, when it is left
  TurningPoint end;         // the low, when it is reached
};

// Finds the highest level of each repetition. A repetition begins at one of these moments and lasts until the next one,
// or the end of the history. A cycle is the fall from the previous highest level and the rise to the next.
std::vector<MemoryCycle> cycles_between(std::span<const std::size_t> begins, const MemoryHistory& history,
                                        const Lifetimes& lifetimes, const StopPoint& stop_point);

// For a history without repetitions: at least three cycles from low to low that return to about the same level and
// cover half of the events; otherwise empty.
std::vector<MemoryCycle> find_cycles(const MemoryHistory& history, const Lifetimes& lifetimes,
                                     const HistorySummary& summary, const StopPoint& stop_point);

// At these shares the verdict is allocator_bound and compute_bound.
inline constexpr double kAllocatorBoundShare = 0.2;
inline constexpr double kComputeBoundShare = 0.9;

std::string_view name(Sawtooth::Verdict verdict);

// Sets report.sawtooth, but for the requests that are already there.
void judge_sawtooth(const std::vector<MemoryCycle>& cycles, const MemoryHistory& history, const Lifetimes& lifetimes,
                    double allocator_us, const std::optional<DeviceWork>& work, const StopPoint& stop_point,
                    MemoryReport& report);

}  // namespace ridgepoint
