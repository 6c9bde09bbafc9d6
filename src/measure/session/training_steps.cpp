#include "measure/session/training_steps.h"

#include <utility>

#include "measure/memory/forecast.h"
#include "measure/session/anomaly.h"
#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;

// Thrown where the watcher says stop; never leaves run_training_steps().
struct Stopped {};

void write_tokens(Program& program, const StepConfig& config, const TrainingTokens& tokens) {
  write_random_tokens(program, config.model, static_cast<std::uint64_t>(config.seed));
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

TrainingResult run_steps(const StepConfig& config, std::int64_t optimizer_steps, const TrainingTokens& tokens,
                         const StepWatcher& watch) {
  const auto enter = [&](Stage stage, std::int64_t index = 0, std::int64_t count = 0) {
    if (watch && !watch({stage, index, count})) throw Stopped{};
  };
  enter(Stage::planning);
  const Mode mode = optimizer_steps > 0 ? Mode::step : Mode::backward;
  const std::shared_ptr<Device> device = open_device(config.device, config.device_options);
  ProgramOptions options{.compile = compile_options(config), .stop_point = [&] { enter(Stage::planning); }};
  options.compile.mode = mode;
  options.compile.keep = {.results = true, .gradients = true};
  options.compile.after_pass = [&](const PassResult& pass, const Graph& graph) {
    if (pass.name == last_training_pass()) attention_fallback(graph, *device);  // warns of it; the values are the same
  };
  Program program(plan_with_room(build_transformer(config.model, config.batch), device, options), nullptr, options);
  const std::vector<ParameterDeclaration> parameters = transformer_parameters(config.model);
  write_parameters(program, config, [&] { enter(Stage::initialising); });
  write_tokens(program, config, tokens);
  TrainingResult result;
  result.inputs = program.read_input("inputs");
  result.targets = program.read_input("targets");
  const std::int64_t runs = std::max<std::int64_t>(optimizer_steps, 1);
  std::optional<AnomalyDetector> detector;
  if (config.detect_anomaly) detector.emplace(program);
  for (std::int64_t i = 0; i < runs; ++i) {
    enter(Stage::timing, i, runs);
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

std::optional<TrainingResult> run_training_steps(const StepConfig& config, std::int64_t optimizer_steps,
                                                 const TrainingTokens& tokens, const StepWatcher& watch) {
  try {
    return run_steps(config, optimizer_steps, tokens, watch);
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

}  // namespace ridgepoint
