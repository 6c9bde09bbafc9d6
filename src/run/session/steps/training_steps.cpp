#include "run/session/steps/training_steps.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "ridgepoint/runtime/program.h"
#include "run/session/steps/anomaly.h"
#include "runtime/device/communicator.h"

namespace ridgepoint {
namespace {

// The rows of all ranks, in their order.
HostTensor joined_rows(HostTensor mine, ProcessGroup* group) {
  if (group == nullptr) return mine;
  const std::string_view bytes(reinterpret_cast<const char*>(mine.data.data()), mine.data.size());
  const std::vector<std::string> all = group->all_gather(bytes, "rows");
  HostTensor joined({mine.type.dtype, with_size(mine.type.shape, 0, mine.type.shape[0] * group->ranks())});
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    std::memcpy(joined.data.data() + rank * mine.data.size(), all[rank].data(), mine.data.size());
  return joined;
}

// The rows of this rank.
HostTensor rows_of_rank(const HostTensor& all, const ParallelOptions& parallel) {
  HostTensor rows({all.type.dtype, with_size(all.type.shape, 0, all.type.shape[0] / parallel.data)});
  const std::size_t bytes = rows.data.size();
  std::memcpy(rows.data.data(), all.data.data() + static_cast<std::size_t>(parallel.rank) * bytes, bytes);
  return rows;
}

void write_tokens(Program& program, const TrainingTokens& tokens) {
  const ParallelOptions& parallel = program.parallel();
  if (tokens.inputs) program.write_input("inputs", rows_of_rank(*tokens.inputs, parallel));
  if (tokens.targets) program.write_input("targets", rows_of_rank(*tokens.targets, parallel));
}

HostTensor output_of(const Program& program, const std::string& name) {
  return convert(program.read_output(name), DType::fp32);
}

void take_loss_and_gradients(const Program& program, TrainingResult& result) {
  result.tensors["loss"] = output_of(program, "loss");
  for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
    const std::string name = "grad." + parameter.name;
    // A frozen parameter has none.
    const bool has_gradient = program.graph().find_output(name).has_value();
    result.tensors[name] = has_gradient ? output_of(program, name) : HostTensor({DType::fp32, parameter.type.shape});
  }
}

void take_parameters(const Program& program, TrainingResult& result) {
  for (const ParameterDeclaration& parameter : parameters_of(program.graph()))
    result.tensors["param." + parameter.name] = convert(program.read_input(parameter.name), DType::fp32);
}

// Runs all steps from the initial values on, and calls `take` after each, with 1 after the first.
void run_steps(const RunConfig& config, const TrainingTokens& tokens, const StepWatcher& watch, TrainingResult& result,
               const std::function<void(Program& program, std::int64_t step)>& take) {
  Record record;  // not read: the result is tensors
  Session session(config, watch, record);
  Program program = session.ready_program();
  write_tokens(program, tokens);
  std::optional<AnomalyDetector> detector;
  if (config.detect_anomaly) detector.emplace(program);
  for (std::int64_t i = 0; i < config.steps; ++i) {
    session.enter(Session::Stage::timing, i, config.steps);
    program.run();
    program.synchronize();
    if (detector && detector->first() && result.anomaly.empty())
      result.anomaly = "step " + std::to_string(i + 1) + ": " + *detector->first();
    take(program, i + 1);
  }
}

// A run that keeps logits and gradients computes the loss without chunks, and does not scatter gradients among ranks.
// So logits and gradients come from one run, and losses and parameters from another, as bench runs it.
TrainingResult run_steps(RunConfig config, std::int64_t optimizer_steps, const TrainingTokens& tokens,
                         const StepWatcher& watch) {
  TrainingResult result;
  ProcessGroup* const group = config.group.get();
  RunConfig keeping = config;
  keeping.compile.keep = {.results = true, .gradients = true};
  keeping.steps = 1;
  run_steps(keeping, tokens, watch, result, [&](const Program& program, std::int64_t) {
    result.inputs = joined_rows(program.read_input("inputs"), group);
    result.targets = joined_rows(program.read_input("targets"), group);
    result.tensors["logits"] = joined_rows(output_of(program, "logits"), group);
    take_loss_and_gradients(program, result);
  });
  run_steps(config, tokens, watch, result, [&](const Program& program, std::int64_t step) {
    if (optimizer_steps == 0) return take_loss_and_gradients(program, result);
    result.tensors["loss." + std::to_string(step)] = output_of(program, "loss");
    if (step == optimizer_steps) take_parameters(program, result);
  });
  result.anomaly = problem_of_ranks(group, result.anomaly, "anomalies");
  return result;
}

}  // namespace

std::optional<TrainingResult> run_training_steps(RunConfig config, std::int64_t optimizer_steps,
                                                 const TrainingTokens& tokens, const StepWatcher& watch) {
  config.compile.mode = optimizer_steps > 0 ? Mode::step : Mode::forward_backward;
  config.compile.keep = {};
  config.warmup = 0;
  config.steps = std::max<std::int64_t>(optimizer_steps, 1);
  TrainingResult result;
  if (is_stopped([&] { result = run_steps(config, optimizer_steps, tokens, watch); })) return std::nullopt;
  return result;
}

}  // namespace ridgepoint
