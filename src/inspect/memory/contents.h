// The contents of memory at a moment, by category, by origin and by group, and the blocks that leak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types/enum_names.h"
#include "inspect/memory/lifetimes.h"
#include "inspect/memory/repetitions.h"
#include "inspect/memory/report.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// Categories that are inferred where the file names none, from when a block lives and from its stack:
//   parameter_or_state  there before the repetitions begin, and never freed
//   optimizer_state     its stack is in the optimizer, and it outlives its repetition
//   gradient            allocated after the peak of a repetition or in backward (by its stack or by an annotation), and
//                       freed in the next one; or never freed, and of the first or the last repetition
//   activation          alive at the peak of its repetition, and freed in it; or of forward, and alive when a request
//                       failed
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

// Sets the category of every life to an InferredCategory, unless the file names categories. Phases and failures of the
// report must be there.
void infer_categories(const Snapshot& snapshot, const Repetitions& repetitions, const MemoryReport& report,
                      std::size_t events, const StopPoint& stop_point, Lifetimes& lifetimes);

std::string_view category_name(const Snapshot& snapshot, std::uint8_t category);

// Sets what is allocated at contents.at; its levels stay.
void fill(const Snapshot& snapshot, const Lifetimes& lifetimes, const StopPoint& stop_point, MemoryContents& contents);

// For a run of ours: the tensors that a block of the model has saved at the moment and, if the iteration has a
// backward, its gradients from `begin` until `end`. Empty if no module is a block, or if the block has neither.
std::optional<BlockContents> contents_of_block(const Snapshot& snapshot, const Lifetimes& lifetimes, std::size_t moment,
                                               std::size_t begin, std::size_t end, const StopPoint& stop_point);

// The allocations after the moment `begin`, until `end`, groups of the largest blocks first; `held` is the number of
// blocks that are live at `moment`.
struct MemoryRequest {
  MemoryGroup group;
  std::uint64_t held = 0;
};
std::vector<MemoryRequest> requests_between(const Snapshot& snapshot, const Lifetimes& lifetimes, std::size_t begin,
                                            std::size_t end, std::size_t moment);

// The program's own line, "step (me/train.py:12)", and the innermost line of a library below it, "linear
// (nn/functional.py:2317)". Without a line of the program the name is that of the library, and `library` is empty.
struct OriginNames {
  std::string name;  // "(no frames)" without any
  std::string library;
};
OriginNames origin_names(const Snapshot& snapshot, std::uint32_t origin);

// For a run of ours: "matmul" and "layers.0.attn.q_proj", or "parameter" and "lm_head.weight"; for any other origin the
// name of its frame, and no module. `source` is "transformer_graph.cpp:121", or empty if the frame has no file.
struct OriginPlace {
  std::string op;
  std::string module;
  std::string source;
};
OriginPlace place_of(const Snapshot& snapshot, std::uint32_t origin);

// Compares the allocated blocks at the ends of repetitions. The first of three or more repetitions does not count,
// because it also allocates blocks that stay, such as gradients and optimizer states. Blocks of one size and one origin
// are counterparts of one another. A group is a leak only if it grew in at least half of the repetitions. If nothing
// repeats, the end is compared with the begin, when `start_bytes` were allocated.
MemoryLeaks find_leaks(const Snapshot& snapshot, const Repetitions& repetitions, std::uint64_t start_bytes,
                       const Lifetimes& lifetimes, const StopPoint& stop_point);

}  // namespace ridgepoint
