#include "measure/session/training_steps.h"

#include <algorithm>

#include "measure/session/anomaly.h"
#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

void write_tokens(Program& program, const TrainingTokens& tokens) {
  if (tokens.inputs) program.write_input("inputs", *tokens.inputs);
  if (tokens.targets) program.write_input("targets", *tokens.targets);
}

void keep_first_step(Program& program, const std::vector<ParameterDeclaration>& parameters, TrainingResult& result) {
  for (const char* name : {"logits", "loss"}) result.tensors[name] = convert(program.read_output(name), DType::fp32);
  for (const ParameterDeclaration& parameter : parameters) {
    const std::string name = "grad." + parameter.name;
    result.tensors[name] = convert(program.read_output(name), DType::fp32);
  }
}

TrainingResult run_steps(const RunConfig& config, std::int64_t optimizer_steps, const TrainingTokens& tokens,
                         const StepWatcher& watch) {
  Record record;  // not read: the result is tensors
  Session session(config, watch, record);
  const ProgramPlan plan = session.plan();
  session.require_room(plan, session.forecast(plan));
  Program program = session.make(plan);
  session.initialise(program);
  write_tokens(program, tokens);
  const std::vector<ParameterDeclaration> parameters = parameters_of(program.graph());
  TrainingResult result;
  result.inputs = program.read_input("inputs");
  result.targets = program.read_input("targets");
  std::optional<AnomalyDetector> detector;
  if (config.detect_anomaly) detector.emplace(program);
  for (std::int64_t i = 0; i < config.steps; ++i) {
    session.enter(Session::Stage::timing, i, config.steps);
    program.run();
    program.synchronize();
    if (detector && detector->first() && result.anomaly.empty()) {
      result.anomaly = "step " + std::to_string(i + 1) + ": " + *detector->first();
    }
    if (i == 0) keep_first_step(program, parameters, result);
    if (optimizer_steps > 0) {
      result.tensors["loss." + std::to_string(i + 1)] = convert(program.read_output("loss"), DType::fp32);
    }
  }
  for (const ParameterDeclaration& parameter : parameters) {
    if (optimizer_steps > 0) {
      result.tensors["param." + parameter.name] = convert(program.read_input(parameter.name), DType::fp32);
    }
  }
  return result;
}

}  // namespace

std::optional<TrainingResult> run_training_steps(RunConfig config, std::int64_t optimizer_steps,
                                                 const TrainingTokens& tokens, const StepWatcher& watch) {
  config.compile.mode = optimizer_steps > 0 ? Mode::step : Mode::backward;
  config.compile.keep = {.results = true, .gradients = true};
  config.warmup = 0;
  config.steps = std::max<std::int64_t>(optimizer_steps, 1);
  TrainingResult result;
  if (is_stopped([&] { result = run_steps(config, optimizer_steps, tokens, watch); })) return std::nullopt;
  return result;
}

}  // namespace ridgepoint
