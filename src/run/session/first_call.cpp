#include "run/session/first_call.h"

#include <numeric>

#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

using enum FirstCallStage;

void run_once(Session& session, const ProgramPlan& planned) {
  Program program = session.make(planned);
  session.initialise(program);
  {
    const InStage in_stage(first_run);
    program.run();
    program.synchronize();
  }
  session.record_memory(memory_of(program));
}

}  // namespace

FirstCallSection first_call_stages(FirstCallClock& clock) {
  const std::array<double, kFirstCallStages> ms = clock.elapsed_ms();
  const auto of = [&](FirstCallStage stage) { return ms[static_cast<std::size_t>(stage)]; };
  FirstCallSection section;
  section.context = of(context);
  section.graph = of(graph);
  section.passes = of(passes);
  section.plan = of(plan);
  section.libraries = of(libraries);
  section.kernels = of(kernels);
  section.choices = of(choices);
  section.memory = of(memory);
  section.initial_values = of(initial_values);
  section.first_run = of(first_run);
  section.other = of(other);
  section.total = std::accumulate(ms.begin(), ms.end(), 0.0);
  return section;
}

std::optional<Record> measure_first_call(const RunConfig& config, FirstCallClock& clock, const StepWatcher& watch) {
  Record described = describe_run(config, Experiment::bench);
  if (config.weights) described.training_step->weights = config.weights->source;
  return record_run(std::move(described), [&](Record& record) {
    Session session(config, watch, record);
    const ProgramPlan planned = session.plan();
    const MemoryForecast forecast = session.require_room(planned, session.forecast(planned));
    if (session.computes()) {
      run_once(session, planned);
    } else {
      session.record_memory(forecast);
    }
    record.training_step->first_call_ms = first_call_stages(clock);
  });
}

}  // namespace ridgepoint
