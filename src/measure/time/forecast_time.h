// Predicts the time of a run on a GPU, without running it: the roofline of each launch with the rates that kernels
// reach (kernel_rates.h). docs/predicted_times.md compares predictions with measured times.
#pragma once

#include <optional>

#include "measure/machine/datasheet.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/program.h"

namespace ridgepoint {

struct TimeForecast {
  double ms = 0;        // of one run
  PhaseTimes by_phase;  // their sum is `ms`
  // The share of `ms` by which a measured time differs at most, but for one prediction in fifty: 0.1 is 10 %. Empty for
  // a GPU on which nothing has been measured.
  std::optional<double> error;
};

// `graph` is compiled for the GPU at `level`. Launches run one after another; the next begins when the host has issued
// it, but those of Compile::full are captured and wait for no host. Empty without rates (KernelRates::of), and for a
// product of a dtype for which there is none.
std::optional<TimeForecast> forecast_time(const Graph& graph, Compile level, const Datasheet& card);

}  // namespace ridgepoint
