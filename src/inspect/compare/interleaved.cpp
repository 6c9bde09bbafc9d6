#include "inspect/compare/interleaved.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "ridgepoint/core/error.h"
#include "run/session/ranks.h"
#include "run/session/run_record.h"
#include "run/session/steps/step_benchmark.h"
#include "run/timing/machine_state.h"
#include "runtime/device/communicator.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;

constexpr std::string_view kAdvice = "; bench --detect-anomaly names the first such node";

Record describe_lane(const RunConfig& config) {
  Record record = describe_run(config, Experiment::bench);
  if (config.weights) record.training_step->weights = config.weights->source;
  record.training_step->flops_per_step = config.workload->flops(config.compile);
  return record;
}

// One configuration: its program and its times. Members throw only if the watcher stops the run, and LostRanks if an
// iteration fails on one of several ranks.
class Lane {
 public:
  Lane(const RunConfig& config, StepWatcher watch)
      : config_(config), watch_(std::move(watch)), record_(describe_lane(config)) {}

  // `others` programs are in memory already.
  void prepare(std::size_t others) {
    attempt([&] {
      session_.emplace(config_, watch_, record_);
      const ProgramPlan plan = session_->plan();
      describe_ranks(session_->parallel(), plan.graph(), record_.training_step->parallel);
      const MemoryForecast forecast = session_->require_room(plan, session_->forecast(plan));
      record_.memory_bytes.planned_peak = static_cast<std::int64_t>(forecast.use.peak_allocated_bytes);
      program_.emplace(session_->make(plan));
      session_->initialise(*program_);
      timer_ = session_->device()->make_timer();
    });
    if (record_.status == RunStatus::oom && others > 0) {
      record_.error.message += fmt::format(
          " (beside the programs of {} other configuration{}: all are in memory at once; bench measures one at a time)",
          others, others == 1 ? "" : "s");
    }
    fail_with_other_ranks();
  }
  void warm_up(std::int64_t index) {
    iterate([&] {
      session_->enter(Stage::warmup, index, config_.warmup);
      record_.training_step->warmup_ms.push_back(Session::run_once(*program_, *timer_).host_ms);
      ++iterations_;
    });
  }
  void run_round(std::int64_t round) {
    iterate([&] {
      session_->enter(Stage::timing, round, config_.steps);
      Session::run_once(*program_, *timer_);
      times_.push_back(Session::run_once(*program_, *timer_));
      iterations_ += 2;
    });
  }
  // The record, with the times of the first `rounds` rounds.
  Record finish(std::int64_t rounds, const ProcessorWait& wait) {
    attempt([&] {
      record_times(static_cast<std::size_t>(rounds));
      if (config_.group != nullptr)
        gather_times(*config_.group, record_.training_step->time_ms.median, record_.training_step->parallel);
      session_->record_memory(memory_of(*program_));
      session_->record_launching(*program_);
      describe_wait(record_, wait);
      fill_rates(record_, *config_.workload);
      if (const std::optional<double> loss = loss_of(*program_)) require_finite_loss(*loss, iterations_, kAdvice);
    });
    return std::move(record_);
  }

 private:
  // Does nothing after a failure. The program of a lane that fails is released.
  void attempt(const std::function<void()>& stages) {
    if (record_.status != RunStatus::ok) return;
    record_outcome(record_, stages);
    if (record_.status != RunStatus::ok) program_.reset();
  }
  // If a rank fails here, the others wait in a collective, so no rank can go on.
  void iterate(const std::function<void()>& iterations) {
    if (config_.group == nullptr) return attempt(iterations);
    if (record_.status != RunStatus::ok) return;
    try {
      iterations();
    } catch (const std::exception& error) {
      throw LostRanks{error.what()};
    }
  }
  // A configuration that fails on one rank fails on all.
  void fail_with_other_ranks() {
    if (config_.group == nullptr) return;
    const bool is_ok = record_.status == RunStatus::ok;
    const std::string problem =
        problem_of_ranks(config_.group.get(), is_ok ? "" : record_.error.message, "whether a configuration is ready");
    if (is_ok && !problem.empty()) attempt([&] { throw Error("another rank: " + problem); });
  }
  void record_times(std::size_t rounds) {
    std::vector<double> host_ms, device_ms;
    for (std::size_t i = 0; i < std::min(rounds, times_.size()); ++i) {
      host_ms.push_back(times_[i].host_ms);
      device_ms.push_back(times_[i].device_ms);
    }
    record_.steps = static_cast<std::int64_t>(host_ms.size());
    record_.training_step->time_ms = describe(std::move(host_ms));
    record_.training_step->device_time_ms = describe(std::move(device_ms));
  }

  const RunConfig& config_;
  StepWatcher watch_;
  Record record_;
  std::optional<Session> session_;
  std::optional<Program> program_;
  std::unique_ptr<DeviceTimer> timer_;
  std::vector<Session::Elapsed> times_;
  std::int64_t iterations_ = 0;
};

}  // namespace

std::vector<std::size_t> order_of_round(std::int64_t round, std::size_t configurations) {
  std::vector<std::size_t> order(configurations);
  std::iota(order.begin(), order.end(), 0);
  if (round % 2 == 1) std::ranges::reverse(order);
  return order;
}

InterleavedRun measure_interleaved(std::span<const RunConfig> configs, const StepWatcher& watch) {
  double done = 0, total = 0;  // calls of warm_up() and run_round()
  ProcessGroup* const group = configs.front().group.get();
  bool is_to_stop = false;
  const StepWatcher watch_all = [&](StepProgress at) {
    at.share = total > 0 ? done / total : 0;
    const bool goes_on = !watch || watch(at);
    is_to_stop = is_to_stop || !goes_on;
    return goes_on || group != nullptr;
  };
  // Several ranks stop between iterations, and all at once: none may wait in a collective for one that has stopped.
  const auto stop_together = [&] {
    if (group != nullptr && !problem_of_ranks(group, is_to_stop ? "stopped" : "", "whether to stop").empty())
      stop_run();
  };
  std::vector<std::unique_ptr<Lane>> lanes;
  for (const RunConfig& config : configs) {
    lanes.push_back(std::make_unique<Lane>(config, watch_all));
    total += static_cast<double>(config.warmup + config.steps);
  }
  InterleavedRun run;
  ProcessorWait wait;
  is_stopped([&] {
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i]->prepare(i);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      for (std::int64_t index = 0; index < configs[i].warmup; ++index, ++done) {
        stop_together();
        lanes[i]->warm_up(index);
      }
    }
    wait.start();
    for (; run.rounds < configs.front().steps; ++run.rounds) {
      stop_together();
      for (const std::size_t lane : order_of_round(run.rounds, lanes.size())) {
        lanes[lane]->run_round(run.rounds);
        ++done;
      }
    }
  });
  if (run.rounds == 0) return run;
  wait.stop();
  for (const auto& lane : lanes) run.records.push_back(lane->finish(run.rounds, wait));
  return run;
}

}  // namespace ridgepoint
