#include "run/session/steps/step_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/text/throw_error.h"
#include "passes/training/training.h"
#include "run/session/ranks.h"
#include "run/session/run_record.h"
#include "run/session/steps/anomaly.h"
#include "run/timing/timing_quality.h"
#include "runtime/device/communicator.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;

constexpr std::string_view kAdvice = "; bench --detect-anomaly names the first such node";

Record describe_step(const RunConfig& config) {
  Record record = describe_run(config, Experiment::bench);
  if (config.weights) record.training_step->weights = config.weights->source;
  record.training_step->detect_anomaly = config.detect_anomaly;
  return record;
}

// The times of the phases in each timed iteration.
class PhaseSamples {
 public:
  void add(const PhaseTimes& times) {
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (const std::optional<double>& ms = times[static_cast<Phase>(i)]) samples_[i].push_back(*ms);
    }
  }
  PhaseMedians medians() const {
    return {.forward = median(Phase::forward),
            .loss = median(Phase::loss),
            .recompute = median(Phase::recompute),
            .backward = median(Phase::backward),
            .optimizer = median(Phase::optimizer)};
  }

 private:
  std::optional<double> median(Phase phase) const {
    const std::vector<double>& samples = samples_[static_cast<std::size_t>(phase)];
    return samples.empty() ? std::nullopt : std::optional(describe(samples).median);
  }
  std::array<std::vector<double>, kPhaseCount> samples_;  // in the order of Phase
};

// Fills one record: plans, initialises and times a program.
class Run {
 public:
  // `first_call` may be null.
  Run(const RunConfig& config, CeilingCache& ceilings, const StepWatcher& watch, FirstCallClock* first_call,
      Record& record)
      : config_(config),
        watch_(watch),
        ceilings_(ceilings),
        first_call_(first_call),
        record_(record),
        session_(config, watch, record) {}
  // Records the memory also if the run fails.
  ~Run() { memory(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void all_stages(const StepFollowUp& then) {
    const ProgramPlan plan = planned();
    describe_ranks(session_.parallel(), plan.graph(), step().parallel);
    step().flops_per_step = config_.workload->flops(config_.compile);
    if (!session_.computes()) return;
    program_.emplace(session_.make(plan));
    session_.initialise(*program_);
    together([&] { iterate(); });
    if (session_.communicator() != nullptr)
      step().parallel.copied_collectives = session_.communicator()->copied_collectives();
    const std::optional<double> loss = loss_of(*program_);
    loss_scaling();
    memory();
    session_.record_device_memory(*program_);
    if (then) then(session_, *program_);
    program_.reset();  // frees memory for the next measurements
    if (config_.group != nullptr) time_alone(config_, watch_, step().parallel);
    rates();
    if (!loss) return;
    require_finite_loss(*loss, config_.warmup + record_.steps, config_.detect_anomaly ? "" : kAdvice);
  }

 private:
  Record::TrainingStep& step() { return *record_.training_step; }

  void memory() {
    if (!program_) return;
    const MemoryForecast found = memory_of(*program_);
    session_.record_memory(found);
    if (has_iterated_) record_.memory_bytes.allocated_at_end = static_cast<std::int64_t>(found.use.allocated_bytes);
  }

  // Throws OutOfMemory if the plan does not fit.
  ProgramPlan planned() {
    ProgramPlan plan = session_.plan();
    MemoryForecast forecast = session_.forecast(plan);
    const auto record_peak = [&] {
      record_.memory_bytes.planned_peak = static_cast<std::int64_t>(forecast.use.peak_allocated_bytes);
    };
    record_peak();
    forecast = session_.require_room(plan, forecast);
    record_peak();
    if (!session_.computes()) session_.record_memory(forecast);
    return plan;
  }

  void loss_scaling() {
    if (config_.compile.mode != Mode::step || !program_->graph().find_input(kLossScale)) return;
    step().loss_scaling.scale = program_->read_input(kLossScale).as<float>()[0];
    step().loss_scaling.skipped_steps = static_cast<std::int64_t>(program_->read_input(kSkippedSteps).as<float>()[0]);
  }

  void iterate() {
    std::optional<AnomalyDetector> detector;
    if (config_.detect_anomaly) detector.emplace(*program_);
    PhaseSamples phases;
    if (config_.time_phases) program_->time_phases();
    const std::unique_ptr<DeviceTimer> timer = session_.device()->make_timer();
    Session::Times times = session_.iterate([&](std::int64_t i) {
      const Session::Elapsed elapsed = i == 0 ? run_first(*timer) : Session::run_once(*program_, *timer);
      if (detector) require_no_anomaly(*detector, i + 1);
      if (config_.time_phases && i >= config_.warmup) phases.add(program_->phase_times());
      return elapsed;
    });
    has_iterated_ = true;
    step().warmup_ms = std::move(times.warmup_ms);
    record_.timing = judge_timing(times.host_ms, std::move(times.timing), record_.threads_waiting);
    record_.timing.judged = "time_ms";
    step().time_ms = describe(std::move(times.host_ms));
    step().device_time_ms = describe(std::move(times.device_ms));
    step().phase_ms = phases.medians();
    session_.record_launching(*program_);
  }

  // Throws, on all ranks, the finding of the first rank that has one.
  void require_no_anomaly(AnomalyDetector& detector, std::int64_t iteration) {
    ProcessGroup* const group = config_.group.get();
    std::string found;
    if (detector.first()) {
      const std::string rank = group == nullptr ? "" : fmt::format("rank {}: ", group->rank());
      found = fmt::format("{}anomaly in iteration {}: {}", rank, iteration, *detector.first());
    }
    found = problem_of_ranks(group, found, "anomalies");
    has_failed_on_all_ = !found.empty();
    if (has_failed_on_all_) throw Error(found);
  }

  // If only this rank fails here, the others wait in a collective, so no rank can go on.
  void together(const std::function<void()>& iterations) {
    if (config_.group == nullptr) return iterations();
    try {
      iterations();
      gather_times(*config_.group, step().time_ms.median, step().parallel);
    } catch (const std::exception& error) {
      if (has_failed_on_all_) throw;
      throw LostRanks{error.what()};
    }
  }

  Session::Elapsed run_first(DeviceTimer& timer) {
    const InStage in_stage(FirstCallStage::first_run);
    const Session::Elapsed elapsed = Session::run_once(*program_, timer);
    if (first_call_ != nullptr) step().first_call_ms = first_call_stages(*first_call_);
    return elapsed;
  }

  void rates() {
    fill_rates(record_, *config_.workload);
    if (!step().achieved_flops_per_second) return;
    session_.enter(Stage::measuring_ceiling);
    fill_ceiling(record_, ceilings_.matmul(config_.device, config_.device_options.threads, config_.compile.precision,
                                           session_.stop_point(Stage::measuring_ceiling)));
  }

  const RunConfig& config_;
  const StepWatcher& watch_;
  CeilingCache& ceilings_;
  FirstCallClock* first_call_;
  Record& record_;
  Session session_;
  std::optional<Program> program_;
  bool has_iterated_ = false;
  bool has_failed_on_all_ = false;
};

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

std::optional<Record> measure_step(const RunConfig& config, CeilingCache& ceilings, const StepWatcher& watch,
                                   const StepFollowUp& then, FirstCallClock* first_call) {
  return record_run(describe_step(config),
                    [&](Record& record) { Run(config, ceilings, watch, first_call, record).all_stages(then); });
}

std::optional<double> loss_of(Program& program) {
  for (const Output& output : program.graph().outputs()) {
    if (output.role != OutputRole::loss) continue;
    return scalar_of(program.read_output(output.name));
  }
  return std::nullopt;
}

void require_finite_loss(double loss, std::int64_t iterations, std::string_view advice) {
  if (std::isfinite(loss)) return;
  throw_error("the loss is {} after {} iterations{}", std::isnan(loss) ? "NaN" : "infinite", iterations, advice);
}

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
