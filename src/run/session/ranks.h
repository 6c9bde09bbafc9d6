// The times of all ranks of a run, and of single ranks without the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "predict/choose_parallel.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"
#include "run/session/session.h"

namespace ridgepoint {

// Runs `stage` on all ranks, or on one if the group is null. Throws its exception, or an Error of the same kind if
// another rank failed, so that no rank waits for a failed one. `what` names the exchange. A stage may take long on one
// rank, for example if its disk is slow.
void succeed_on_all_ranks(ProcessGroup* group, std::string_view what, const std::function<void()>& stage);

// Records the options and the collectives of the compiled graph. Nothing for one rank.
void describe_ranks(const ParallelOptions& options, const Graph& compiled, ParallelSection& section);

// How the options were chosen.
void describe_choice(const ParallelChoice& choice, std::optional<std::int64_t> capacity_bytes,
                     ParallelSection& section);

// Throws Error on all ranks if one has chosen other options than rank 0. The group may be null.
void require_same_choice(ProcessGroup* group, const ParallelOptions& options);

// The tensors that a run of the program exchanges with other ranks, in order: "all_gather 2 (layers.0), tensor 3 of 9:
// 4096 of fp16".
std::vector<std::string> collectives_of(const Program& program);
// Throws Error on all ranks, with the first difference, if one has other collectives than rank 0: the run would hang or
// mix messages.
void require_same_collectives(ProcessGroup& group, const std::vector<std::string>& mine);

// The memory that a program can allocate on the device now: the least of all ranks, so that all ranks plan alike. CPU
// ranks of one machine share its memory evenly. All ranks call this; a single rank has no group.
std::size_t available_on_ranks(const Device& device, ProcessGroup* group);

// After the timed iterations: exchanges the medians of all ranks.
void gather_times(ProcessGroup& group, double median_ms, ParallelSection& section);

// Times single ranks with the same batch. If each rank has its own card, all run at once, because cards differ in speed
// by several percent; otherwise rank 0 runs, and the others wait. No time if the memory of one rank is too small.
// Called by all ranks, after their programs are released. Throws Error on every rank if one fails.
void time_alone(const RunConfig& config, const StepWatcher& watch, ParallelSection& section);

}  // namespace ridgepoint
