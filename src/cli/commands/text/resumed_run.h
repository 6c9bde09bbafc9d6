// A training that goes on from a checkpoint beside the run that wrote it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "train/checkpoint/checkpoint.h"
#include "train/schedule.h"

namespace ridgepoint::cli {

// The schedule of a run as its checkpoints describe it.
train::Schedule schedule_of(const Json& run);

// A sentence for each difference between the run of the checkpoint and `run`, with which the losses are not those of a
// run without the interruption. `training_fields`: the fields of `run` that have the settings of training. Throws Error
// (usage) where the checkpoint cannot be of this run.
std::vector<std::string> differences_of(const train::FoundCheckpoint& found, const Json& run,
                                        std::span<const std::string_view> training_fields);

}  // namespace ridgepoint::cli
