// Runs a workload under the device's profiler.
#pragma once

#include <optional>
#include <vector>

#include "ridgepoint/inspect/profile.h"
#include "run/session/steps/step_benchmark.h"
#include "runtime/device/activity.h"

namespace ridgepoint {

// The class of a node's kernel. The op decides; for an elementwise op, the phase, the decomposed composite
// (Node::origin) or the module decides.
KernelClass kernel_class(const Graph& graph, const Node& node);

// The properties of a node's kernel that are known before it runs.
KernelRecord record_of(const Graph& graph, const Node& node);

// Turns a log into the kernel records of `steps`. Both use the same clock; times in the profile count from the
// beginning of the first step. Activities outside all steps are left out.
void fill_profile(Profile& profile, const Program& program, const std::vector<ProfiledStep>& steps, ActivityLog log);

// Times a run as measure_step() does, then runs config.profiled_steps more under the device's recorder. If the recorder
// fails, `problem` says why, and the timing is kept. Empty if the watcher stopped the run.
std::optional<Profile> measure_profile(const RunConfig& config, CeilingCache& ceilings, const StepWatcher& watch = {});

// The predicted profile of one step on the configuration's card (predict/time): a kernel for each launch, named after
// its op, with its predicted time. Nothing runs. Without a prediction the record of the run says why. Empty if the
// watcher stopped it.
std::optional<Profile> forecast_profile(const RunConfig& config, const StepWatcher& watch = {});

// measure_step() on one of several ranks; config.profiled_steps more iterations under the device's recorder then give
// the times of communication, which are empty if the recorder fails.
std::optional<Record> measure_step_on_rank(const RunConfig& config, CeilingCache& ceilings,
                                           const StepWatcher& watch = {});

}  // namespace ridgepoint
