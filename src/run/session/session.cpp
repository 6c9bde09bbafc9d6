#include "run/session/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>
#include <utility>

#include "core/first_call_clock.h"
#include "core/seconds_since.h"
#include "core/types/enum_names.h"
#include "ir/stored_tensors.h"
#include "models/transformer/attention.h"
#include "models/transformer/transformer.h"
#include "passes/training/training.h"
#include "predict/block_memory.h"
#include "predict/cards/datasheet.h"
#include "predict/choose_checkpoints.h"
#include "predict/time/forecast_time.h"
#include "ridgepoint/core/error.h"
#include "run/session/ranks.h"
#include "run/session/run_record.h"
#include "run/timing/machine_state.h"
#include "run/timing/timing_quality.h"

namespace ridgepoint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStageNames = enum_names<StepProgress::Stage>("planning", "initialising", "measuring the ceiling",
                                                             "warm-up", "step", "profiling", "measuring a peer");

// Operations per byte: the arithmetic rate over the memory rate.
double flops_per_byte(std::string_view card, Precision precision) {
  const DatasheetRates rates = datasheet_rates(card, name(precision));
  return rates.flops_per_second / rates.bytes_per_second;
}

// The most rows of logits in one cross-entropy node.
std::int64_t rows_of_losses(const Graph& graph) {
  std::int64_t rows = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::cross_entropy) rows = std::max(rows, graph.type(node.outputs[0]).shape[0]);
  }
  return rows;
}

// After the model is described.
void describe_parameters(const RunConfig& config, Record& record) {
  const CompileOptions& options = config.compile;
  std::int64_t trainable = record.model.parameters;
  if (!options.frozen.empty() || options.lora) {
    const ParameterCounts counts = count_parameters(config.workload->build(), options);
    record.model.parameters = counts.all;
    trainable = counts.trainable;
  } else if (const TransformerConfig* model = config.workload->transformer()) {
    trainable -= frozen_parameter_count(*model);
  }
  if (runs_backward(options.mode)) record.trainable_parameters = trainable;
}

void describe_settings(const RunConfig& config, Record& record) {
  const CompileOptions& options = config.compile;
#define RIDGEPOINT_COMPILE_SETTING(type, member, ...) record.member = options.member;
#define RIDGEPOINT_RUN_SETTING(type, member, ...) record.member = config.member;
#include "ridgepoint/ops/run_settings.def"
#undef RIDGEPOINT_COMPILE_SETTING
#undef RIDGEPOINT_RUN_SETTING
  if (options.lora) record.lora = to_text(*options.lora);
  record.offload = options.offload;
  if (options.host_memory_limit_bytes)
    record.host_memory_limit_bytes = static_cast<std::int64_t>(*options.host_memory_limit_bytes);
  if (!options.offload_folder.empty()) record.offload_folder = options.offload_folder;
  if (options.z_loss > 0) record.z_loss = options.z_loss;
  if (options.mode != Mode::step) return;
  const OptimizerOptions& optimizer = options.optimizer;
  record.optimizer = optimizer.kind;
  record.momentum = optimizer.find("momentum");
  record.weight_decay = optimizer.find("weight_decay");
  record.no_decay = optimizer.no_decay;
  record.clip_norm = options.clip_norm;
}

// Thrown by stop_run(); never leaves is_stopped().
struct Stopped {};

}  // namespace

std::string_view name(StepProgress::Stage stage) { return kStageNames[stage]; }

HostTensor initial_value(const RunConfig& config, const ParameterDeclaration& parameter, const StopPoint& stop_point) {
  if (config.weights && !is_adapter(parameter.name)) return config.weights->read(parameter);
  const TransformerConfig* const model = config.workload->transformer();
  if (std::optional<HostTensor> constant = model != nullptr ? initial_constant(*model, parameter) : std::nullopt)
    return *std::move(constant);
  return config.workload->initial_value(parameter, static_cast<std::uint64_t>(config.seed), stop_point);
}

Session::Session(const RunConfig& config, StepWatcher watch, Record& record, std::int64_t repeats)
    : config_(config),
      watch_(std::move(watch)),
      record_(record),
      parallel_(config.compile.parallel),
      offload_(config.compile.offload),
      iterations_(std::max<std::int64_t>(repeats * (config.warmup + config.steps) + config.profiled_steps, 1)) {
  enter(Stage::planning);
  const InStage in_stage(FirstCallStage::context);
  succeed_on_all_ranks(config.group.get(), "whether devices open",
                       [&] { device_ = open_device(config.device, config.device_options); });
  describe_device(record_, *device_);
  if (config.group != nullptr) communicator_ = device_->make_communicator(config.group);
}

void Session::enter(Stage stage, std::int64_t index, std::int64_t count) {
  if (!watch_) return;
  const auto done = static_cast<double>(iterations_done_ + index);
  const bool is_after_them = stage == Stage::measuring_ceiling || stage == Stage::measuring_peer;
  const double share = is_after_them ? 1.0 : done / static_cast<double>(iterations_);
  if (!watch_({stage, index, count, share})) stop_run();
}

StopPoint Session::stop_point(Stage stage) {
  return [this, stage] { enter(stage); };
}

Graph Session::build_graph(const StopPoint& stop_point) {
  const InStage in_stage(FirstCallStage::graph);
  return config_.workload->build(stop_point);
}

ProgramPlan Session::plan(Mode mode, const MemoryLimit& limit) {
  const bool is_limited = config_.chooses_parallel() || config_.chooses_checkpoints() || config_.chooses_offload();
  const MemoryLimit known = is_limited ? known_limit(limit) : limit;
  if (config_.chooses_parallel()) choose_parallel(mode, known);
  std::optional<ProgramPlan> made;
  succeed_on_all_ranks(config_.group.get(), "whether plans are made", [&] {
    made = config_.chooses_offload() ? choose_offload(mode, known) : plan_within(mode, known);
  });
  ProgramPlan plan = std::move(*made);
  if (mode == Mode::forward_backward || mode == Mode::step) {
    const Cost recomputed = recomputation(plan.graph());
    record_.recomputed_flops = recomputed.flops;
    record_.recomputed_bytes = recomputed.bytes;
  }
  return plan;
}

// Without a capacity, the available memory, which may be unlimited.
MemoryLimit Session::known_limit(MemoryLimit limit) const {
  if (limit.capacity_bytes || !(computes() || config_.device_options.memory_limit_bytes)) return limit;
  limit.capacity_bytes = static_cast<std::int64_t>(available_bytes());
  return limit;
}

void Session::choose_parallel(Mode mode, const MemoryLimit& limit) {
  ParallelProblem problem{.options = config_.compile.parallel,
                          .chooses_sharding = config_.choose_sharding,
                          .chooses_bucket = config_.choose_bucket,
                          .mode = mode,
                          .stop_point = stop_point(Stage::planning)};
  if (limit.capacity_bytes) problem.memory_bytes = limit.bytes();
  problem.plan_of = [&](const ParallelOptions& options) {
    parallel_ = options;
    if (!config_.chooses_offload()) return plan_within(mode, limit);
    try {
      return choose_offload(mode, limit);
    } catch (const Error& error) {  // another sharding may need less of the host's memory
      if (error.kind() != ErrorKind::unsupported) throw;
      record_.offload = offload_ = Offload::none;
      return plan_within(mode, limit);
    }
  };
  problem.ms_of = [&](const ProgramPlan& plan) -> std::optional<double> {
    const std::optional<TimeForecast> forecast = forecast_time(plan, config_, limit.card).forecast;
    return forecast ? std::optional(forecast->ms) : std::nullopt;
  };
  ParallelChoice choice;
  succeed_on_all_ranks(config_.group.get(), "whether plans choose",
                       [&] { choice = ridgepoint::choose_parallel(problem); });
  require_same_choice(config_.group.get(), choice.options);
  parallel_ = choice.options;
  if (record_.training_step) describe_choice(choice, limit.capacity_bytes, record_.training_step->parallel);
}

// No set if the run fits without. Otherwise the fastest set that fits, by predicted time; without a predicted time the
// first; if none fits, the set with the least peak. A superset of a set that fits copies more, and is not tried. If
// checkpoints are chosen too, "fits" means: without recomputation, because a run with more tensors on the host
// recomputes less, and may be faster.
ProgramPlan Session::choose_offload(Mode mode, const MemoryLimit& limit) {
  const ForecastOptions options{.stop_point = stop_point(Stage::planning)};
  struct Trial {
    Offload set = Offload::none;
    bool fits = false;
    double ms = HUGE_VAL;
    std::size_t peak_bytes = 0;
    bool recomputes = false;

    bool fits_so() const { return fits && (!recomputes || ms == HUGE_VAL); }
  };
  std::vector<Trial> trials;
  const auto plan_of = [&](Offload set) {
    record_.offload = offload_ = set;
    return plan_within(mode, limit);
  };
  const auto try_set = [&](const ProgramPlan& plan) {
    const MemoryForecast memory = forecast_memory(plan, options);
    const bool fits = forecast_within(forecaster_of(plan, options), memory, limit.bytes()).has_value();
    const std::optional<TimeForecast> time = fits ? forecast_time(plan, config_, limit.card).forecast : std::nullopt;
    trials.push_back({offload_, fits, time ? time->ms : HUGE_VAL, memory.use.peak_reserved_bytes, recomputes_});
    return trials.back().fits_so();
  };
  ProgramPlan plan = plan_of(Offload::none);
  if (try_set(plan)) return plan;
  for (const Offload set : offload_sets(mode)) {
    const bool contains_fitting =
        std::ranges::any_of(trials, [&](const Trial& trial) { return trial.fits_so() && (trial.set | set) == set; });
    if (contains_fitting) continue;
    try {
      try_set(plan_of(set));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;  // the memory of the host is too small
    }
  }
  if (trials.size() == 1 && !trials[0].fits) return plan_of(offload_sets(mode).front());  // throws the refusal
  const auto order = [](const Trial& trial) {
    return std::tuple(!trial.fits, trial.fits ? trial.ms : static_cast<double>(trial.peak_bytes));
  };
  return plan_of(std::ranges::min_element(trials, {}, order)->set);
}

ProgramPlan Session::plan_within(Mode mode, const MemoryLimit& limit) {
  record_.loss_chunk_rows.reset();  // of an earlier plan
  return config_.chooses_checkpoints() ? choose_checkpoints(mode, limit)
                                       : plan_with(mode, config_.compile.block_checkpoints);
}

ProgramPlan Session::choose_checkpoints(Mode mode, const MemoryLimit& limit) {
  const CheckpointChoice choice = ridgepoint::choose_checkpoints(
      {.plan_of = [&](const BlockCheckpoints& blocks, Mode in_mode) { return plan_with(in_mode, blocks); },
       .mode = mode,
       .memory_bytes = limit.bytes(),
       .flops_per_byte = flops_per_byte(limit.card.value_or(device_->name()), config_.compile.precision),
       .stop_point = stop_point(Stage::planning)});
  record_.checkpoint_blocks = choice.description;
  recomputes_ = !choice.blocks.empty();
  if (choice.fits) record_.checkpoint_gap = choice.gap;
  return choice.plan;
}

ProgramPlan Session::plan_with(Mode mode, const BlockCheckpoints& blocks) {
  ProgramOptions options{
      .compile = config_.compile, .allocator = config_.allocator, .stop_point = stop_point(Stage::planning)};
  options.compile.mode = mode;
  options.compile.parallel = parallel_;
  options.compile.offload = offload_;
  options.compile.block_checkpoints = blocks;
  // The detector reads results after each launch, which is too early for an update that runs beside others.
  if (config_.detect_anomaly) options.compile.skip.emplace_back("spread_updates");
  options.compile.after_pass = [&](const PassResult& pass, const Graph& graph) {
    if (pass.name == last_training_pass()) record_.attention_fallback = attention_fallback(graph, *device_);
    if (pass.name == "chunk_loss" && pass.changed) record_.loss_chunk_rows = rows_of_losses(graph);
  };
  return {build_graph(options.stop_point), device_, options};
}

std::size_t Session::available_bytes() const { return available_on_ranks(*device_, config_.group.get()); }

MemoryForecast Session::forecast(const ProgramPlan& plan, std::int64_t warmup) {
  const InStage in_stage(FirstCallStage::plan);
  ForecastOptions options = forecast_options();
  options.warmup = warmup;
  return forecast_memory(plan, options);
}

MemoryForecast Session::require_room(const ProgramPlan& plan, const MemoryForecast& forecast) {
  const InStage in_stage(FirstCallStage::plan);
  if (config_.run_anyway && computes()) return forecast;
  const std::size_t available = available_bytes();
  MemoryForecast found;
  succeed_on_all_ranks(config_.group.get(), "whether plans fit",
                       [&] { found = ridgepoint::require_room(plan, forecast, available, forecast_options()); });
  return found;
}

ForecastOptions Session::forecast_options() {
  std::optional<std::int64_t> iterations;
  if (!config_.budget_seconds && !config_.until) iterations = config_.warmup + config_.steps;
  return {.iterations = iterations, .stop_point = stop_point(Stage::planning)};
}

Program Session::make(const ProgramPlan& plan, MemoryTrace* trace) {
  const InStage in_stage(FirstCallStage::kernels);
  std::optional<Program> program;
  succeed_on_all_ranks(config_.group.get(), "whether programs are made", [&] {
    program.emplace(
        plan, nullptr,
        ProgramOptions{
            .stop_point = stop_point(Stage::initialising), .memory_trace = trace, .communicator = communicator_});
  });
  if (config_.group != nullptr) require_same_collectives(*config_.group, collectives_of(*program));
  return std::move(*program);
}

bool Session::first_rank_says(bool answer) const {
  return config_.group == nullptr
             ? answer
             : config_.group->all_gather(answer ? "yes" : "no", "whether iterations go on").front() == "yes";
}

Program Session::ready_program() {
  const ProgramPlan planned = plan();
  const MemoryForecast found = require_room(planned, forecast(planned));
  record_.memory_bytes.planned_peak = static_cast<std::int64_t>(found.use.peak_allocated_bytes);
  ready_peak_bytes_ = found.use.peak_reserved_bytes;
  Program program = make(planned);
  initialise(program);
  return program;
}

void Session::initialise(Program& program) {
  enter(Stage::initialising);
  const InStage in_stage(FirstCallStage::initial_values);
  const StopPoint stop = stop_point(Stage::initialising);
  const auto seed = static_cast<std::uint64_t>(config_.seed);
  succeed_on_all_ranks(config_.group.get(), "whether values are written", [&] {
    if (!config_.weights) return ridgepoint::initialise(program, *config_.workload, seed, stop);
    for (const NodeId id : program.graph().inputs(Role::parameter)) {
      for (const StoredTensor& one : stored_tensors(program.graph(), program.graph().node(id))) {
        stop();
        std::optional<HostTensor> packed;
        if (one.packed && config_.weights->read_packed) packed = config_.weights->read_packed(one.name, *one.packed);
        program.write_input(one.name, packed ? *packed : initial_value(config_, {one.name, one.type}, stop));
      }
    }
    config_.workload->write_data(program, seed, stop);
    for (const ParameterDeclaration& constant : config_.weights->constants)
      program.write_input(constant.name, config_.weights->read(constant));
    program.synchronize();
  });
}

std::vector<double> Session::warm_up(const Iteration& iteration) {
  const double budget_seconds = config_.budget_seconds.value_or(1e30);
  const Clock::time_point begin = Clock::now();
  std::vector<double> warmup_ms;
  const bool is_timed = config_.budget_seconds.has_value();
  const auto goes_on = [&] { return !is_timed || first_rank_says(seconds_since(begin) < budget_seconds / 2); };
  for (std::int64_t i = 0; i < config_.warmup && (i == 0 || goes_on()); ++i) {
    enter(Stage::warmup, i, config_.warmup);
    warmup_ms.push_back(iteration(i).host_ms);
  }
  iterations_done_ += config_.warmup;
  return warmup_ms;
}

Session::Times Session::iterate(const Iteration& iteration) {
  Times times;
  times.warmup_ms = warm_up(iteration);
  MachineState machine(device_->facts().pci_bus_id);
  machine.start();
  Sampling sampling(config_);
  const bool is_counted = !config_.until && !config_.budget_seconds;  // all ranks count alike
  const auto goes_on = [&] {
    const bool answer = sampling.goes_on(times.host_ms);
    return is_counted ? answer : first_rank_says(answer);
  };
  for (std::int64_t i = 0; goes_on(); ++i) {
    // How many iterations follow is not known with `until`.
    if (config_.until) {
      enter(Stage::timing, sampling.steps_done(times.host_ms.size()));
    } else {
      enter(Stage::timing, i, config_.steps);
    }
    machine.between();
    const Elapsed elapsed = iteration(config_.warmup + i);
    times.host_ms.push_back(elapsed.host_ms);
    times.device_ms.push_back(elapsed.device_ms);
  }
  machine.stop(static_cast<std::int64_t>(times.host_ms.size()));
  describe_wait(record_, machine.wait());
  times.timing = machine.timing();
  times.timing.ended_by = sampling.ended_by();
  times.timing.until = config_.until;
  if (config_.until) {
    times.timing.until_limit_seconds = config_.until_limit_seconds;
    record_.steps = static_cast<std::int64_t>(times.host_ms.size());
  }
  iterations_done_ += config_.steps;
  return times;
}

Session::Elapsed Session::run_once(Program& program, DeviceTimer& timer) {
  const Clock::time_point begin = Clock::now();
  timer.start();
  program.run();
  timer.stop();
  program.synchronize();
  const std::chrono::duration<double, std::milli> host = Clock::now() - begin;
  return {host.count(), timer.elapsed_ms()};
}

void Session::record_memory(const MemoryForecast& found) { ridgepoint::record_memory(record_, found); }

void Session::record_device_memory(const Program& program) {
  const std::optional<std::size_t> free_bytes = device_->free_memory_bytes();
  const std::optional<std::int64_t> at_start = device_->facts().used_at_start_bytes;
  const std::optional<std::int64_t> card_bytes = device_->facts().memory_bytes;
  if (!free_bytes || !at_start || !card_bytes) return;
  const std::int64_t used = *card_bytes - static_cast<std::int64_t>(*free_bytes);
  const auto reserved = static_cast<std::int64_t>(program.memory_use().reserved_bytes);
  record_.memory_bytes.device_used = used;
  record_.memory_bytes.device_at_start = at_start;
  record_.memory_bytes.device_libraries = std::max<std::int64_t>(used - *at_start - reserved, 0);
}

void Session::record_launching(const Program& program) {
  record_.captured = program.is_captured();
  record_.unfused_bodies = program.unfused_bodies();
  if (!program.capture_problem().empty()) record_.capture_problem = program.capture_problem();
}

Record describe_run(const RunConfig& config, Experiment experiment) {
  Record record = begin_record(experiment, config.device, config.device_options);
  record.mode = config.compile.mode;
  record.dtype = config.compile.precision;
  record.compile = config.compile.level;
  record.allocator = config.allocator.value_or(default_allocator(config.compile.level));
  record.checkpoint = config.compile.checkpoint;
  if (has_segments(record.checkpoint)) record.checkpoint_segment = config.compile.checkpoint_segment;
  if (config.fit_into_bytes) {
    record.fit_into_bytes = static_cast<std::int64_t>(*config.fit_into_bytes);
    record.device.memory_limit_bytes.reset();  // the same
    if (config.schedule) record.schedule = *config.schedule;
  }
  describe_settings(config, record);
  const WorkloadDescription workload = config.workload->describe();
  record.attention = workload.attention;
  record.batch = workload.batch;
  record.context = workload.context;
  record.model = workload.model;
  describe_parameters(config, record);
  return record;
}

void stop_run() { throw Stopped{}; }

bool is_stopped(const std::function<void()>& run) {
  try {
    run();
    return false;
  } catch (const Stopped&) {
    return true;
  }
}

std::optional<Record> record_run(Record record, const std::function<void(Record&)>& stages) {
  if (is_stopped([&] { record_outcome(record, [&] { stages(record); }); })) return std::nullopt;
  return record;
}

}  // namespace ridgepoint
