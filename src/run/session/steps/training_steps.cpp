#include "run/session/steps/training_steps.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "ridgepoint/program.h"
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

void keep_first_step(Program& program, const std::vector<ParameterDeclaration>& parameters, ProcessGroup* group,
                     TrainingResult& result) {
  result.tensors["logits"] = joined_rows(convert(program.read_output("logits"), DType::fp32), group);
  result.tensors["loss"] = convert(program.read_output("loss"), DType::fp32);
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
  ProcessGroup* const group = config.group.get();
  result.inputs = joined_rows(program.read_input("inputs"), group);
  result.targets = joined_rows(program.read_input("targets"), group);
  std::optional<AnomalyDetector> detector;
  if (config.detect_anomaly) detector.emplace(program);
  for (std::int64_t i = 0; i < config.steps; ++i) {
    session.enter(Session::Stage::timing, i, config.steps);
    program.run();
    program.synchronize();
    if (detector && detector->first() && result.anomaly.empty()) {
      result.anomaly = "step " + std::to_string(i + 1) + ": " + *detector->first();
    }
    if (i == 0) keep_first_step(program, parameters, group, result);
    if (optimizer_steps > 0) {
      result.tensors["loss." + std::to_string(i + 1)] = convert(program.read_output("loss"), DType::fp32);
    }
  }
  result.anomaly = problem_of_ranks(group, result.anomaly, "anomalies");
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
  config.compile.mode = optimizer_steps > 0 ? Mode::step : Mode::forward_backward;
  config.compile.keep = {.results = true, .gradients = true};
  config.warmup = 0;
  config.steps = std::max<std::int64_t>(optimizer_steps, 1);
  TrainingResult result;
  if (is_stopped([&] { result = run_steps(config, optimizer_steps, tokens, watch); })) return std::nullopt;
  return result;
}

}  // namespace ridgepoint
