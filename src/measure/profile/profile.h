// Makes a profile of a run.
#pragma once

#include <optional>
#include <vector>

#include "measure/session/step_benchmark.h"
#include "ridgepoint/profile.h"
#include "runtime/activity.h"

namespace ridgepoint {

// What the node's kernel is for: by its op; where that is elementwise work, by its phase, by the composite that it is a
// piece of (Node::origin) or by the module it stands in.
KernelClass kernel_class(const Graph& graph, const Node& node);

// Turns a log into records of `steps`, whose times and those of the log are on one clock; the result counts from the
// first step's beginning. Activities outside every step are left out.
void fill_profile(Profile& profile, const Program& program, const std::vector<ProfiledStep>& steps, ActivityLog log);

// Times a run as measure_step() does, then runs config.profiled_steps more of it under the device's recorder. What
// keeps the recorder from its work becomes `problem`; the timing stands. Empty when the watcher stopped it.
std::optional<Profile> measure_profile(const RunConfig& config, CeilingCache& ceilings, const StepWatcher& watch = {});

}  // namespace ridgepoint
