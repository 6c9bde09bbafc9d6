// What to run, on what, and how: the configuration that every experiment takes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ridgepoint/compile.h"
#include "ridgepoint/program.h"
#include "ridgepoint/workload.h"

namespace ridgepoint {

// Parameters that are given rather than made from the seed.
struct GivenWeights {
  std::string source;  // for the record: the file
  // fp32, of the type declared. May be asked more than once for a parameter.
  std::function<HostTensor(const ParameterDeclaration&)> read;
};

struct RunConfig {
  std::string device = "cpu";  // as open_device() takes it
  DeviceOptions device_options;
  std::shared_ptr<const Workload> workload;
  CompileOptions compile = {.mode = Mode::step};
  Checkpoint checkpoint = Checkpoint::off;
  std::int64_t seed = 0;
  std::int64_t warmup = 5;
  std::int64_t steps = 10;
  std::int64_t profiled_steps = 0;  // under the profiler, after the timed ones
  // Ends the timed iterations once that much is over and three are done, and the warm-up once half of it is over and
  // one is done. Empty: all of them are run.
  std::optional<double> budget_seconds;
  bool run_anyway = false;      // although the plan does not fit into what memory is available
  bool detect_anomaly = false;  // the run fails with the first NaN or infinity that a node makes
  std::optional<GivenWeights> weights = {};
};

// What a parameter holds before the first step: fp32, given or made from the seed.
HostTensor initial_value(const RunConfig& config, const ParameterDeclaration& parameter,
                         const StopPoint& stop_point = {});

}  // namespace ridgepoint
