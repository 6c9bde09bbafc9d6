#include "cli/terminal/run_progress.h"

#include <fmt/format.h>

namespace ridgepoint::cli {

std::string describe_row(const StepConfig& config) {
  return fmt::format("{} {} batch {} context {}", config.model.name, name(config.mode), config.batch,
                     config.model.context);
}

double estimated_cost(const StepConfig& config, std::int64_t profiled_steps) {
  const double tokens = static_cast<double>(config.batch) * static_cast<double>(config.model.context);
  const double passes = config.mode == Mode::forward ? 1 : 3;
  const double iterations = static_cast<double>(config.warmup + config.steps + profiled_steps);
  return static_cast<double>(parameter_count(config.model)) * (tokens * passes * iterations + 100);
}

std::string stage_text(const StepProgress& at) {
  if (at.count == 0) return std::string(name(at.stage));
  return fmt::format("{} {}/{}", name(at.stage), at.index + 1, at.count);
}

double share_done(const StepConfig& config, const StepProgress& at, std::int64_t profiled_steps) {
  using Stage = StepProgress::Stage;
  const double all = static_cast<double>(config.warmup + config.steps + profiled_steps);
  if (at.stage == Stage::warmup) return static_cast<double>(at.index) / all;
  if (at.stage == Stage::timing) return static_cast<double>(config.warmup + at.index) / all;
  if (at.stage == Stage::profiling) return static_cast<double>(config.warmup + config.steps + at.index) / all;
  return at.stage == Stage::measuring_ceiling ? 1 : 0;
}

}  // namespace ridgepoint::cli
