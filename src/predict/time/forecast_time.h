// Predicts the time of a run on a GPU, without running it: the roofline of each launch with the rate of the kernel that
// would run (kernel_time.h). docs/predicted_times.md compares predictions with measured times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "predict/cards/datasheet.h"
#include "ridgepoint/core/network.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

struct TimeForecast {
  double ms = 0;        // of one run
  PhaseTimes by_phase;  // their sum is `ms`
  // Of the collectives of several ranks: how long they run, and how long launches wait for them, which is a part of
  // `ms`.
  double communication_ms = 0;
  double exposed_ms = 0;
  // The share of `ms` by which a measured time differs at most, but for one prediction in fifty: 0.1 is 10 %. Empty for
  // a GPU, links or a number of ranks with which nothing has been measured.
  std::optional<double> error;
  // Where a measured time should lie, in ms. Wide where the error is empty.
  double low_ms = 0, high_ms = 0;
  std::string warning;  // why it is wide; empty where it is not
};

// When a launch begins, and how long it runs. A launch of several kernels is one.
struct LaunchForecast {
  NodeId node{};
  double begin_ms = 0, ms = 0;
};

// A forecast, or a sentence that says why there is none. Both are empty for a plan without a GPU.
struct TimePrediction {
  std::optional<TimeForecast> forecast;
  std::string problem;
};

// The plan's device has the kernels of the GPU and says which kernel runs each launch, and at what rate. The plan was
// compiled at `level`. Launches run one after another; the next begins when the host has issued it, but those
// of Compile::full are captured and wait for no host. Collectives run beside them, one after another, until the launch
// that the plan lets wait for them. Launches and collectives that run at the same time slow each other
// (kernel_time.h). Empty for a GPU that is too old for the engine's kernels or whose datasheet lacks rates, for a
// product of a dtype without a rate, and for collectives without a network.
// `launches`, if given, gets the launches that are no collectives.
TimePrediction forecast_time(const ProgramPlan& plan, Compile level, const Datasheet& card,
                             const std::optional<Network>& network = {},
                             std::vector<LaunchForecast>* launches = nullptr);

// The same for the plan of a configuration, between its network or else the links of the card. The plan's device says
// which GPU's kernels it has; empty for those of another device, or of another one than `card`.
TimePrediction forecast_time(const ProgramPlan& plan, const RunConfig& config,
                             const std::optional<std::string>& card = {},
                             std::vector<LaunchForecast>* launches = nullptr);

}  // namespace ridgepoint
