#include "measure/attention/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "ridgepoint/error.h"
#include "runtime/activity.h"
#include "runtime/device.h"

namespace ridgepoint {
namespace {

// Starts a timer before the first launch of backward.
class BackwardTimer : public LaunchObserver {
 public:
  BackwardTimer(const Program& program, DeviceTimer& timer) : timer_(timer) {
    const std::vector<LaunchInfo> launches = program.launches();
    const auto is_backward = [&](const LaunchInfo& launch) {
      return program.graph().node(launch.node).phase == Phase::backward;
    };
    first_backward_ = static_cast<std::uint32_t>(std::ranges::find_if(launches, is_backward) - launches.begin());
  }
  void before_launch(std::uint32_t launch) override {
    if (launch == first_backward_) timer_.start();
  }
  void after_launch(std::uint32_t) override {}

 private:
  DeviceTimer& timer_;
  std::uint32_t first_backward_;
};

// Fills one record: plans, runs and times forward, then forward + backward.
class Run {
 public:
  Run(const RunConfig& config, const AttentionProblem& problem, const StepWatcher& watch, Record& record)
      : problem_(problem), record_(record), session_(config, watch, record, 2) {}

  void all_stages() {
    const ProgramPlan both = session_.plan(Mode::backward);
    const MemoryForecast forecast = session_.forecast(both);
    record_.memory_bytes.planned_peak = static_cast<std::int64_t>(forecast.use.peak_allocated_bytes);
    record_.memory_bytes.planned_before_backward = static_cast<std::int64_t>(forecast.before_backward_bytes);
    if (!session_.computes()) return memory(session_.require_room(both, forecast));
    // Forward may fit even if forward + backward does not.
    const ProgramPlan forward = session_.plan(Mode::forward);
    session_.require_room(forward, session_.forecast(forward));
    call().forward_ms = describe(time_forward(forward));
    call().forward_flops_per_second = rate(forward_flops(problem_), call().forward_ms);
    session_.require_room(both, forecast);
    Program program = made(both);
    program.run();
    program.synchronize();
    memory({program.memory_use(), program.before_backward_bytes()});
    call().backward_ms = describe(time_backward(program));
    call().backward_flops_per_second = rate(backward_flops(problem_), call().backward_ms);
    require_agreement(forecast);
  }

 private:
  Record::AttentionCall& call() { return *record_.attention_call; }

  Program made(const ProgramPlan& plan) {
    Program program = session_.make(plan);
    session_.initialise(program);
    return program;
  }

  std::vector<double> time_forward(const ProgramPlan& plan) {
    Program forward = made(plan);
    const std::unique_ptr<DeviceTimer> timer = session_.device()->make_timer();
    return session_.iterate([&](std::int64_t) { return Session::run_once(forward, *timer); }).device_ms;
  }

  std::vector<double> time_backward(Program& both) {
    const std::unique_ptr<DeviceTimer> timer = session_.device()->make_timer();
    BackwardTimer observer(both, *timer);
    both.observe(&observer);
    const auto iteration = [&](std::int64_t) {
      both.run();
      timer->stop();
      both.synchronize();
      return Session::Elapsed{.device_ms = timer->elapsed_ms()};
    };
    return session_.iterate(iteration).device_ms;
  }

  void memory(const MemoryForecast& found) {
    session_.record_memory(found.use, found.before_backward_bytes);
    record_.memory_bytes.allocated_at_end = static_cast<std::int64_t>(found.use.allocated_bytes);
  }

  static std::optional<double> rate(double flops, const Statistics& time_ms) {
    return time_ms.median > 0 ? std::optional(flops / (time_ms.median / 1e3)) : std::nullopt;
  }

  void require_agreement(const MemoryForecast& forecast) const {
    const auto require = [](const char* what, std::int64_t measured, std::size_t predicted) {
      if (measured == static_cast<std::int64_t>(predicted)) return;
      throw Error(fmt::format("{}: {} bytes were predicted and {} measured", what, predicted, measured));
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
  run.compile = compile_options(config.problem, Mode::backward);
  run.compile.level = config.compile.level;
  return run;
}

Record describe_run(const AttentionConfig& config) {
  Record record = describe_run(run_config(config), Experiment::attention);
  record.attention_call->keys = config.problem.keys;
  record.attention_call->causal = config.problem.causal;
  return record;
}

std::optional<Record> measure_attention(const AttentionConfig& config, const StepWatcher& watch) {
  const RunConfig run = run_config(config);
  return record_run(describe_run(config),
                    [&](Record& record) { Run(run, config.problem, watch, record).all_stages(); });
}

}  // namespace ridgepoint
