// Predicts the time of a run on a GPU: the roofline of each launch, with the rate of the kernel that would run
// (kernel_time.h). docs/predicted_times.md compares predictions with measured times.
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
  // How long the collectives of several ranks run, and how long launches wait for them, a part of `ms`.
  double communication_ms = 0;
  double exposed_ms = 0;
  // 49 of 50 measured times differ from `ms` by at most this share: 0.1 is 10 %. Empty if nothing was measured on this
  // GPU, with these links or with this number of ranks.
  std::optional<double> error;
  // A measured time should lie between these, in ms. The range is wide if the error is empty.
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

// Forecasts a plan that was compiled at `level`. The plan's device has the kernels of the GPU, and knows the kernel of
// each launch and its rate. Launches run one after another. A launch begins when the host has issued it; with
// Compile::full launches are captured and wait for no host. Collectives run beside launches, one after another, until
// the launch that the plan makes wait for them. Launches and collectives at the same time slow each other
// (kernel_time.h). There is no forecast if the GPU is too old for the engine's kernels, if its datasheet lacks rates,
// for a product of a dtype without a rate, and for collectives without a network. `launches`, if given, gets all
// launches but collectives.
TimePrediction forecast_time(const ProgramPlan& plan, Compile level, const Datasheet& card,
                             const std::optional<Network>& network = {},
                             std::vector<LaunchForecast>* launches = nullptr);

// The same for the plan of a configuration, with its network or else the links of the card. Empty if the plan's device
// does not have the kernels of `card`.
TimePrediction forecast_time(const ProgramPlan& plan, const RunConfig& config,
                             const std::optional<std::string>& card = {},
                             std::vector<LaunchForecast>* launches = nullptr);

}  // namespace ridgepoint
