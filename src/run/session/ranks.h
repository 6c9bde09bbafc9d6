// What a run on several ranks costs: times of all ranks, and of one without the others.
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

// Runs `stage`, on one rank where the group is null. Throws its exception, or an Error of the kind of that of another
// rank, so that no rank waits for one that has failed. `what` names the exchange. A rank may work for long, as where it
// reads weights from a slower disk.
void succeed_on_all_ranks(ProcessGroup* group, std::string_view what, const std::function<void()>& stage);

// The options, and the collectives of the compiled graph. Nothing for one rank.
void describe_ranks(const ParallelOptions& options, const Graph& compiled, ParallelSection& section);

// How the options were chosen.
void describe_choice(const ParallelChoice& choice, std::optional<std::int64_t> capacity_bytes,
                     ParallelSection& section);

// Throws Error on all ranks where one has chosen other options than rank 0. The group may be null.
void require_same_choice(ProcessGroup* group, const ParallelOptions& options);

// The tensors that a run of the program exchanges with other ranks, in order: "all_gather 2 (layers.0), tensor 3 of 9:
// 4096 of fp16".
std::vector<std::string> collectives_of(const Program& program);
// Throws Error on all ranks, with the first difference, where one of them has other collectives than rank 0: run, they
// would hang or mix their messages.
void require_same_collectives(ProcessGroup& group, const std::vector<std::string>& mine);

// What a program could allocate on the device now: on several ranks, on that which has the least, so that all ranks
// plan alike. Ranks on processors of one machine share its memory evenly. All ranks call this; one alone has no group.
std::size_t available_on_ranks(const Device& device, ProcessGroup* group);

// After the timed iterations: exchanges the medians of all ranks.
void gather_times(ProcessGroup& group, double median_ms, ParallelSection& section);

// Times ranks with the same batch on one rank: all at once where each has a card of its own, because cards differ in
// speed by several percent; otherwise rank 0, while the others wait. No time where one does not have the memory. Called
// by all ranks, when their programs are released. Throws Error on every rank where one fails.
void time_alone(const RunConfig& config, const StepWatcher& watch, ParallelSection& section);

}  // namespace ridgepoint
