#include "inspect/attention/benchmark.h"

#include <memory>
#include <utility>

#include "core/text/throw_error.h"
#include "run/timing/timing_quality.h"

namespace ridgepoint {
namespace {

// Fills one record: plans, runs and times forward, then forward + backward.
class Run {
 public:
  Run(const RunConfig& config, const AttentionProblem& problem, const StepWatcher& watch, Record& record)
      : problem_(problem), record_(record), session_(config, watch, record, 2) {}

  void all_stages() {
    const ProgramPlan both = session_.plan(Mode::forward_backward);
    const MemoryForecast forecast = session_.forecast(both);
    record_.memory_bytes.planned_peak = static_cast<std::int64_t>(forecast.use.peak_allocated_bytes);
    record_.memory_bytes.planned_before_backward = static_cast<std::int64_t>(forecast.before_backward_bytes);
    if (!session_.computes()) return memory(session_.require_room(both, forecast));
    // Forward may fit even if forward + backward does not.
    const ProgramPlan forward = session_.plan(Mode::forward);
    session_.require_room(forward, session_.forecast(forward));
    time_forward(forward);
    session_.require_room(both, forecast);
    Program program = made(both);
    time(program, Phase::backward, "backward_ms", call().backward_ms);
    memory(memory_of(program));
    call().backward_flops_per_second = rate(backward_flops(problem_), call().backward_ms);
    session_.record_launching(program);
    require_agreement(forecast);
  }

 private:
  Record::AttentionCall& call() { return *record_.attention_call; }

  Program made(const ProgramPlan& plan) {
    Program program = session_.make(plan);
    session_.initialise(program);
    return program;
  }

  // Frees what forward alone holds before forward + backward is made.
  void time_forward(const ProgramPlan& plan) {
    Program program = made(plan);
    time(program, Phase::forward, "forward_ms", call().forward_ms);
    call().forward_flops_per_second = rate(forward_flops(problem_), call().forward_ms);
  }

  // Measures the time of one phase in each timed run. The record keeps the first verdict that is not steady.
  void time(Program& program, Phase phase, const char* name, Statistics& time_ms) {
    program.time_phases();
    const auto iteration = [&](std::int64_t) {
      program.run();
      program.synchronize();
      return Session::Elapsed{.device_ms = program.phase_times()[phase].value_or(0)};
    };
    Session::Times times = session_.iterate(iteration);
    if (record_.timing.verdict.value_or(TimingVerdict::steady) == TimingVerdict::steady) {
      record_.timing = judge_timing(times.device_ms, std::move(times.timing), record_.threads_waiting);
      record_.timing.judged = name;
    }
    time_ms = describe(std::move(times.device_ms));
  }

  void memory(const MemoryForecast& found) {
    session_.record_memory(found);
    record_.memory_bytes.allocated_at_end = static_cast<std::int64_t>(found.use.allocated_bytes);
  }

  static std::optional<double> rate(double flops, const Statistics& time_ms) {
    return time_ms.median > 0 ? std::optional(flops / (time_ms.median / 1e3)) : std::nullopt;
  }

  // The plan does not know which bodies NVRTC rejects; the ops that run instead need other workspaces.
  void require_agreement(const MemoryForecast& forecast) const {
    if (!record_.unfused_bodies.empty()) return;
    const auto require = [](const char* what, std::int64_t measured, std::size_t predicted) {
      if (measured == static_cast<std::int64_t>(predicted)) return;
      throw_error("{}: {} bytes were predicted and {} measured", what, predicted, measured);
    };
    require("peak memory", *record_.memory_bytes.peak_allocated, forecast.use.peak_allocated_bytes);
    require("memory before backward", *record_.memory_bytes.before_backward, forecast.before_backward_bytes);
  }

  const AttentionProblem& problem_;
  Record& record_;
  Session session_;
};

}  // namespace

RunConfig run_config(const AttentionConfig& config) {
  RunConfig run = config;
  run.workload = std::make_shared<AttentionCall>(config.problem);
  run.compile = compile_options(config.problem, Mode::forward_backward);
  run.compile.level = config.compile.level;
  // These variants stay the plain formula when compiled: their ops are fused, not replaced by the tiled op.
  const AttentionVariant variant = config.problem.variant;
  if (variant == AttentionVariant::naive || variant == AttentionVariant::composite)
    run.compile.skip = {"recognise_attention"};
  return run;
}

Record describe_run(const AttentionConfig& config) {
  Record record = describe_run(run_config(config), Experiment::attention);
  record.attention_call->keys = config.problem.keys;
  record.attention_call->causal = config.problem.causal;
  if (config.problem.window > 0) record.attention_call->window = config.problem.window;
  if (config.problem.soft_cap > 0) record.attention_call->soft_cap = config.problem.soft_cap;
  return record;
}

std::optional<Record> measure_attention(const AttentionConfig& config, const StepWatcher& watch) {
  const RunConfig run = run_config(config);
  return record_run(describe_run(config),
                    [&](Record& record) { Run(run, config.problem, watch, record).all_stages(); });
}

}  // namespace ridgepoint
