#include "measure/study/plan.h"

#include "measure/study/plan/planner.h"
#include "measure/study/plan/topics.h"

namespace ridgepoint {

std::int64_t StudyPartPlan::rows() const {
  std::int64_t rows = 0;
  for (const StudyCommand& command : commands) rows += command.rows;
  return rows;
}

double StudyPartPlan::seconds() const {
  double seconds = 0;
  for (const StudyCommand& command : commands) seconds += command.seconds;
  return seconds;
}

StudyPartPlan devices_part(const StudySettings& settings) {
  StudyCommand command{.arguments = {"devices"}, .rows = 0, .seconds = 3};
  if (settings.threads > 0)
    command.arguments.insert(command.arguments.end(), {"--threads", std::to_string(settings.threads)});
  return {StudyPart::devices, "Devices and their measured rates", {std::move(command)}};
}

std::vector<StudyPartPlan> plan_study(const StudyMachine& machine, const StudySettings& settings) {
  plan::Planner planner(machine, settings);
  plan::add_steps(planner);
  plan::add_precision(planner);
  plan::add_memory(planner);
  plan::add_attention(planner);
  plan::add_policies(planner);
  if (settings.ranks > 1) plan::add_ranks(planner);
  return planner.take();
}

}  // namespace ridgepoint
