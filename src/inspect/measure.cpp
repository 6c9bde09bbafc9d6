#include "ridgepoint/measure.h"

#include "inspect/profile/profile.h"
#include "run/session/steps/step_benchmark.h"

namespace ridgepoint {

Record benchmark(const RunConfig& config) {
  CeilingCache ceilings;
  return *measure_step(config, ceilings);  // without a watcher, nothing stops it
}

Profile profile(RunConfig config) {
  constexpr std::int64_t kProfiledSteps = 3;
  if (config.profiled_steps == 0) config.profiled_steps = kProfiledSteps;
  CeilingCache ceilings;
  return *measure_profile(config, ceilings);
}

}  // namespace ridgepoint
