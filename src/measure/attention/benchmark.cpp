#include "measure/attention/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/memory/forecast.h"
#include "measure/record/run_record.h"
#include "measure/session/processor_wait.h"
#include "ridgepoint/error.h"
#include "runtime/activity.h"
#include "runtime/device.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLeastTimedSteps = 3;

// Thrown out of the stages by a watcher that says stop; never leaves measure_attention().
struct Stopped {};

// Starts a timer where a run passes from forward to backward.
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

// Fills one record by taking a program of forward and one of both through their stages.
class Run {
 public:
  Run(const AttentionConfig& config, const StepWatcher& watch, Record& record)
      : config_(config), watch_(watch), record_(record) {}

  void all_stages() {
    enter(Stage::planning, 0);
    validate(config_.problem);
    device_ = open_device(config_.device, config_.device_options);
    describe_device(record_, *device_);
    const ProgramPlan both = plan(true);
    const MemoryForecast forecast = forecast_memory(both, std::nullopt, stop_point(Stage::planning));
    record_.memory_bytes.planned_peak = static_cast<std::int64_t>(forecast.use.peak_allocated_bytes);
    record_.memory_bytes.planned_before_backward = static_cast<std::int64_t>(forecast.before_backward_bytes);
    if (!computes()) return memory(require_room(both, forecast, stop_point(Stage::planning)));
    // Forward may fit where both do not.
    const ProgramPlan forward = plan(false);
    check_room(forward, forecast_memory(forward, std::nullopt, stop_point(Stage::planning)));
    call().forward_ms = describe(time_forward(forward));
    call().forward_flops_per_second = rate(forward_flops(config_.problem), call().forward_ms);
    check_room(both, forecast);
    Program program = made(both, true);
    program.run();
    program.synchronize();
    memory({program.memory_use(), program.before_backward_bytes()});
    call().backward_ms = describe(time_backward(program));
    call().backward_flops_per_second = rate(backward_flops(config_.problem), call().backward_ms);
    require_agreement(forecast);
  }

 private:
  Record::AttentionCall& call() { return *record_.attention_call; }
  bool computes() const { return device_->kind() != "null"; }

  void enter(Stage stage, std::int64_t done) const {
    if (watch_ && !watch_({stage, done, 2 * (config_.warmup + config_.steps)})) throw Stopped{};
  }

  StopPoint stop_point(Stage stage, std::int64_t done = 0) const {
    return [this, stage, done] { enter(stage, done); };
  }

  ProgramPlan plan(bool backward) {
    ProgramOptions options{.compile = compile_options(config_.problem, backward ? Mode::backward : Mode::forward),
                           .stop_point = stop_point(Stage::planning)};
    options.compile.after_pass = [&](const PassResult& pass, const Graph& graph) {
      if (!backward || pass.name != last_training_pass()) return;
      record_.attention_fallback = attention_fallback(graph, *device_);
    };
    return {build_attention_problem(config_.problem), device_, options};
  }

  void check_room(const ProgramPlan& plan, const MemoryForecast& forecast) const {
    if (!config_.run_anyway) require_room(plan, forecast, stop_point(Stage::planning));
  }

  Program made(const ProgramPlan& plan, bool backward) const {
    const StopPoint stop = stop_point(Stage::initialising, backward ? config_.warmup + config_.steps : 0);
    Program program(plan, nullptr, ProgramOptions{.stop_point = stop});
    write_random_operands(program, static_cast<std::uint64_t>(config_.seed), stop);
    return program;
  }

  std::vector<double> time_forward(const ProgramPlan& plan) {
    Program forward = made(plan, false);
    const std::unique_ptr<DeviceTimer> timer = device_->make_timer();
    return iterate(0, [&] {
      timer->start();
      forward.run();
      timer->stop();
      forward.synchronize();
      return timer->elapsed_ms();
    });
  }

  std::vector<double> time_backward(Program& both) {
    const std::unique_ptr<DeviceTimer> timer = device_->make_timer();
    BackwardTimer observer(both, *timer);
    both.observe(&observer);
    return iterate(config_.warmup + config_.steps, [&] {
      both.run();
      timer->stop();
      both.synchronize();
      return timer->elapsed_ms();
    });
  }

  // The times of the timed ones.
  template <typename Iteration>
  std::vector<double> iterate(std::int64_t done, Iteration iteration) {
    const double budget = config_.budget_seconds.value_or(1e30);
    Clock::time_point begin = Clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    for (std::int64_t i = 0; i < config_.warmup && (i == 0 || seconds() < budget / 2); ++i) {
      enter(Stage::warmup, done + i);
      iteration();
    }
    std::vector<double> times_ms;
    wait_.start();
    begin = Clock::now();
    for (std::int64_t i = 0; i < config_.steps && (i < kLeastTimedSteps || seconds() < budget); ++i) {
      enter(Stage::timing, done + config_.warmup + i);
      times_ms.push_back(iteration());
    }
    wait_.stop();
    describe_wait(record_, wait_);
    return times_ms;
  }

  void memory(const MemoryForecast& found) {
    record_.memory_bytes.peak_allocated = static_cast<std::int64_t>(found.use.peak_allocated_bytes);
    record_.memory_bytes.peak_reserved = static_cast<std::int64_t>(found.use.peak_reserved_bytes);
    record_.memory_bytes.peak_requested = static_cast<std::int64_t>(found.use.peak_requested_bytes);
    record_.memory_bytes.before_backward = static_cast<std::int64_t>(found.before_backward_bytes);
    record_.memory_bytes.allocated_at_end = static_cast<std::int64_t>(found.use.allocated_bytes);
  }

  static std::optional<double> rate(double flops, const Statistics& time_ms) {
    return time_ms.median > 0 ? std::optional(flops / (time_ms.median / 1e3)) : std::nullopt;
  }

  void require_agreement(const MemoryForecast& forecast) const {
    const auto require = [](const char* what, std::int64_t measured, std::size_t predicted) {
      if (measured == static_cast<std::int64_t>(predicted)) return;
      throw Error(fmt::format("{} was planned to be {} bytes and is {}", what, predicted, measured));
    };
    require("the peak", *record_.memory_bytes.peak_allocated, forecast.use.peak_allocated_bytes);
    require("memory before backward", *record_.memory_bytes.before_backward, forecast.before_backward_bytes);
  }

  const AttentionConfig& config_;
  const StepWatcher& watch_;
  Record& record_;
  std::shared_ptr<Device> device_;
  ProcessorWait wait_;
};

}  // namespace

Record describe_run(const AttentionConfig& config) {
  const AttentionProblem& problem = config.problem;
  Record record = begin_record(Experiment::attention, config.device, config.device_options);
  record.mode = Mode::backward;
  record.dtype = problem.precision;
  record.attention = problem.variant;
  record.batch = problem.batch;
  record.context = problem.queries;
  record.attention_call->keys = problem.keys;
  record.attention_call->causal = problem.causal;
  record.model.d_model = problem.d_model;
  record.model.heads = problem.heads;
  record.warmup = config.warmup;
  record.steps = config.steps;
  record.seed = config.seed;
  return record;
}

std::optional<Record> measure_attention(const AttentionConfig& config, const StepWatcher& watch) {
  Record record = describe_run(config);
  try {
    record_outcome(record, [&] { Run(config, watch, record).all_stages(); });
  } catch (const Stopped&) {
    return std::nullopt;
  }
  return record;
}

}  // namespace ridgepoint
