#include "run/session/fit_into.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text/units.h"
#include "ops/node_key.h"
#include "ops/rule.h"
#include "plan/plan.h"
#include "predict/cards/datasheet.h"
#include "predict/schedule/choose_schedule.h"
#include "predict/time/forecast_time.h"
#include "ridgepoint/core/error.h"
#include "run/session/ranks.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

// The tokens of which a loss is computed at a time, from many to few.
constexpr std::int64_t kLossChunks[] = {4 * kLossChunkRows, kLossChunkRows, kLossChunkRows / 4};
constexpr std::int64_t kMostMicroBatches = 1024;

class Fitter {
 public:
  // On several ranks, it fails on all if it fails on one; so does choose().
  Fitter(const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch) : config_(config), limit_(limit) {
    succeed_on_all_ranks(config.group.get(), "whether devices open for a schedule", [&] {
      device_ = open_device(config.device, config.device_options);
      rates_ = datasheet_rates(limit.card.value_or(device_->name()), name(config.compile.precision));
    });
    memory_bytes_ = memory_bytes();
    stop_point_ = [watch] {
      if (watch && !watch({StepProgress::Stage::planning})) stop_run();
    };
  }

  // The configuration that runs. Throws OutOfMemory's kind of Error if nothing fits, after it has set `config`.
  void choose(RunConfig& config) {
    ScheduleProblem problem{.micro_batches = micro_batches(),
                            .loss_chunks = loss_chunks(),
                            .tokens = tokens(),
                            .flops_per_byte = rates_.flops_per_second / rates_.bytes_per_second,
                            .stop_point = stop_point_};
    problem.graph_of = [&](std::int64_t count) {
      CompileOptions options = with(Schedule{.micro_batches = count}).compile;
      options.until = "recompute_norms";
      return compile(workload_of(count)->build(stop_point_), *device_, options);
    };
    problem.plan_of = [&](const Schedule& schedule) {
      const RunConfig run = with(schedule);
      return ProgramPlan(run.workload->build(stop_point_), device_,
                         {.compile = run.compile, .allocator = run.allocator, .stop_point = stop_point_});
    };
    problem.time_of = [&](const ProgramPlan& plan) { return time_of(plan); };
    std::optional<ScheduleChoice> found;
    succeed_on_all_ranks(config_.group.get(), "whether schedules are chosen", [&] { found = choose_of(problem); });
    const ScheduleChoice& choice = *found;
    config = with(choice.schedule);
    config.schedule = std::make_shared<const ScheduleSection>(describe(choice));
    if (!choice.fits) throw Error(*config.schedule->problem, ErrorKind::out_of_memory);
  }

 private:
  // The fastest schedule that fits. With --offload auto, schedules with and without the optimizer states on the host
  // are searched. Every other set needs a search of its own, and is tried only if nothing fits yet. A set that needs
  // too much of the host's memory is left out. If every set does, and nothing else fits, that is the error.
  ScheduleChoice choose_of(const ScheduleProblem& problem) {
    Offload chosen = offload_ = config_.chooses_offload() ? Offload::none : config_.compile.offload;
    ScheduleChoice best = schedule_chooser(problem)(memory_bytes_);
    if (!config_.chooses_offload()) return best;
    bool is_any_planned = false;
    std::exception_ptr refusal;
    for (const Offload set : offload_sets(config_.compile.mode)) {
      if (best.fits && set != Offload::optimizer) continue;
      offload_ = set;
      try {
        ScheduleChoice other = schedule_chooser(problem)(memory_bytes_);
        is_any_planned = true;
        const bool is_better =
            other.fits ? !best.fits || other.ms < best.ms : !best.fits && other.peak_bytes < best.peak_bytes;
        if (!is_better) continue;
        if (best.fits) other.bound_ms = std::min(other.bound_ms, best.bound_ms);
        best = std::move(other);
        chosen = set;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::unsupported) throw;  // the memory of the host is too small
        refusal = std::current_exception();
      }
    }
    if (refusal && !is_any_planned && !best.fits) std::rethrow_exception(refusal);
    offload_ = chosen;
    return best;
  }

  std::int64_t batch() const { return config_.workload->describe().batch; }
  std::int64_t tokens() const { return batch() * config_.workload->describe().context; }

  std::vector<std::int64_t> micro_batches() const {
    std::vector<std::int64_t> counts = {1};
    if (!config_.workload_of_batch) return counts;
    for (std::int64_t count = 2; count <= std::min(batch(), kMostMicroBatches); ++count) {
      if (batch() % count == 0) counts.push_back(count);
    }
    return counts;
  }

  std::vector<std::int64_t> loss_chunks() const {
    std::vector<std::int64_t> chunks = {0};
    for (const std::int64_t rows : kLossChunks) {
      if (rows < tokens()) chunks.push_back(rows);
    }
    return chunks;
  }

  std::size_t memory_bytes() const {
    return std::min({*config_.fit_into_bytes, limit_.bytes(), available_on_ranks(*device_, config_.group.get())});
  }

  const std::shared_ptr<const Workload>& workload_of(std::int64_t count) {
    std::shared_ptr<const Workload>& workload = workloads_[count];
    if (!workload) workload = count == 1 ? config_.workload : config_.workload_of_batch(batch() / count);
    return workload;
  }

  RunConfig with(const Schedule& schedule) {
    RunConfig run = config_;
    run.workload = workload_of(schedule.micro_batches);
    run.compile.accumulate = schedule.planned_micro_batches.value_or(schedule.micro_batches);
    run.compile.loss_chunk_rows = schedule.loss_chunk_rows;
    run.compile.checkpoint = schedule.tensors.empty() ? Checkpoint::none : Checkpoint::automatic;
    run.compile.block_tensors = schedule.tensors;
    run.compile.offload = offload_;
    run.compile.stop_point = {};
    return run;
  }

  // The predicted time, or the floors of operations and bytes.
  ScheduleTime time_of(const ProgramPlan& plan) {
    ScheduleTime time;
    const TimePrediction predicted = forecast_time(plan, config_, limit_.card, &time.launches);
    if (predicted.forecast) {
      time.ms = predicted.forecast->ms;
      return time;
    }
    is_predicted_ = false;
    time.launches.clear();
    for (const PlanStep& step : plan.execution().steps) {
      const double ms = floor_ms(plan.graph(), step.node);
      time.launches.push_back({step.node, time.ms, ms});
      time.ms += ms;
    }
    return time;
  }

  double floor_ms(const Graph& graph, NodeId id) {
    const auto [known, is_new] = floors_.try_emplace(typed_key(graph, graph.node(id)));
    if (!is_new) return known->second;
    constexpr double kMsPerSecond = 1e3;
    const Cost work = cost(graph, graph.node(id));
    known->second = kMsPerSecond * std::max(static_cast<double>(work.bytes) / rates_.bytes_per_second,
                                            static_cast<double>(work.flops) / rates_.flops_per_second);
    return known->second;
  }

  ScheduleSection describe(const ScheduleChoice& choice) const {
    ScheduleSection section;
    section.ms = choice.ms;
    if (!is_predicted_)
      section.floors_of = fmt::format("the floors of operations and bytes at the rates of {}", rates_.card);
    for (const SchedulePart& part : choice.parts) {
      section.parts.push_back(part.what);
      section.part_bytes.push_back(part.bytes);
      section.part_ms.push_back(part.ms);
    }
    if (choice.fits) {
      section.bound_ms = choice.bound_ms;
      section.gap = choice.ms > 0 ? 1 - choice.bound_ms / choice.ms : 0;
      section.next_gib_saves_ms = choice.next_gib_saves_ms;
    } else {
      section.problem = problem_of(choice);
    }
    return section;
  }

  std::string problem_of(const ScheduleChoice& choice) const {
    std::size_t always = 0;  // parameters, and states of the optimizer
    for (const Buffer& buffer : choice.plan.execution().buffers) {
      if (buffer.persistent && !buffer.on_host) always += buffer.bytes;
    }
    return fmt::format(
        "no schedule fits into {}: the smallest that was found reserves {}, with {} micro-batch{} and {} tokens of the "
        "loss at a time; {} of it are parameters, states and data, which every schedule holds. A smaller model, fewer "
        "trained parameters (--lora) or a smaller --context need less",
        format_bytes(memory_bytes_), format_bytes(choice.peak_bytes), choice.schedule.micro_batches,
        choice.schedule.micro_batches == 1 ? "" : "es",
        choice.schedule.loss_chunk_rows == 0 ? "all" : std::to_string(choice.schedule.loss_chunk_rows),
        format_bytes(always));
  }

  const RunConfig& config_;
  const MemoryLimit& limit_;
  std::shared_ptr<Device> device_;
  std::size_t memory_bytes_ = 0;
  DatasheetRates rates_;
  StopPoint stop_point_;
  std::map<std::int64_t, std::shared_ptr<const Workload>> workloads_;  // by the number of micro-batches
  std::unordered_map<std::string, double> floors_;
  Offload offload_ = Offload::none;
  bool is_predicted_ = true;
};

}  // namespace

std::optional<FittedRun> fit_into(const RunConfig& config, Experiment experiment, const MemoryLimit& limit,
                                  const StepWatcher& watch) {
  FittedRun fitted{config, {}};
  if (!config.fit_into_bytes) return fitted;
  std::optional<Record> record = record_run(describe_run(config, experiment),
                                            [&](Record&) { Fitter(config, limit, watch).choose(fitted.config); });
  if (!record) return std::nullopt;
  if (record->status == RunStatus::ok) return fitted;
  if (fitted.config.schedule) record->schedule = *fitted.config.schedule;
  fitted.failure = std::move(*record);
  return fitted;
}

}  // namespace ridgepoint
