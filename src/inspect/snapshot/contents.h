// What memory holds at a moment, by category and by origin, and which blocks became more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/enum_names.h"
#include "inspect/snapshot/lifetimes.h"
#include "inspect/snapshot/repetitions.h"
#include "inspect/snapshot/report.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// Categories that are inferred where the file names none, from when a block lives and from its stack:
//   parameter_or_state  there before the repetitions begin, and never freed
//   optimizer_state     its stack is in the optimizer, and it outlives its repetition
//   gradient            allocated after the peak of a repetition or in backward (by its stack or by an annotation), and
//                       freed in the next one; or never freed, and of the first or the last repetition
//   activation          alive at the peak of its repetition, and freed in it
//   temporary           any other block that its repetition frees, and one that lives for few events
//   workspace           as large as a workspace of cuBLAS, asked for in a forward or without frames, never freed, and
//                       the only such block: one for each thread that calls cuBLAS
//   unknown             what fits none
enum class InferredCategory : std::uint8_t {
  unknown,
  parameter_or_state,
  optimizer_state,
  gradient,
  activation,
  temporary,
  workspace
};
inline constexpr auto kInferredCategoryNames = enum_names<InferredCategory>(
    "unknown", "parameter_or_state", "optimizer_state", "gradient", "activation", "temporary", "workspace");

// Sets the category of every life to an InferredCategory. Does nothing where the file names categories.
void infer_categories(const Snapshot& snapshot, const Repetitions& repetitions,
                      const std::vector<SnapshotPhase>& phases, std::size_t events, const StopPoint& stop_point,
                      Lifetimes& lifetimes);

std::string_view category_name(const Snapshot& snapshot, std::uint8_t category);

// What is allocated at a moment.
MemoryContents contents_at(const Snapshot& snapshot, const Lifetimes& lifetimes, std::size_t moment,
                           const StopPoint& stop_point);

// Compares what is allocated at the ends of repetitions. The first of three or more does not count: it also allocates
// what stays, such as gradients and the state of the optimizer. Blocks of one size and one origin are counterparts of
// one another. Nothing is a leak that grew in fewer than half of the repetitions.
SnapshotLeaks find_leaks(const Snapshot& snapshot, const Repetitions& repetitions, const Lifetimes& lifetimes,
                         const StopPoint& stop_point);

}  // namespace ridgepoint
