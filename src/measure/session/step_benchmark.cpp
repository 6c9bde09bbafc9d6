#include "measure/session/step_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/enum_names.h"
#include "measure/machine/datasheet.h"
#include "measure/memory/forecast.h"
#include "measure/record/run_record.h"
#include "measure/session/anomaly.h"
#include "measure/session/processor_wait.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/error.h"
#include "runtime/device.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;
using Clock = std::chrono::steady_clock;

constexpr auto kStageNames =
    enum_names<Stage>("planning", "initialising", "measuring the ceiling", "warm-up", "step", "profiling");

// Thrown out of the stages by a watcher that says stop; never leaves measure_step().
struct Stopped {};

Record describe_run(const StepConfig& config) {
  Record record = begin_record(Experiment::bench, config.device, config.device_options);
  record.mode = config.mode;
  record.dtype = precision_from_name(config.dtype);
  record.compile = compile_from_name(config.compile);
  record.attention = config.model.attention;
  record.checkpoint = checkpoint_from_name(config.checkpoint);
  record.batch = config.batch;
  record.context = config.model.context;
  record.model = {config.model.name,   parameter_count(config.model),
                  config.model.layers, config.model.d_model,
                  config.model.d_ff,   config.model.heads,
                  config.model.vocab};
  record.warmup = config.warmup;
  record.steps = config.steps;
  record.seed = config.seed;
  if (config.weights) record.training_step->weights = config.weights->source;
  record.training_step->detect_anomaly = config.detect_anomaly;
  return record;
}

// Fills one record by taking a program through its stages.
class Run {
 public:
  Run(const StepConfig& config, CeilingCache& ceilings, const StepWatcher& watch, const StepFollowUp& then,
      Record& record)
      : config_(config), ceilings_(ceilings), watch_(watch), then_(then), record_(record) {}

  void all_stages() {
    enter(Stage::planning);
    device_ = open_device(config_.device, config_.device_options);
    describe_device(record_, *device_);
    const ProgramPlan plan = planned();
    step().flops_per_step = transformer_flops(config_.model, config_.batch, config_.mode);
    if (!computes()) return;
    program_.emplace(plan, nullptr, options());
    enter(Stage::initialising);
    write_data();
    iterate();
    const std::optional<double> loss = last_loss();
    loss_scaling();
    memory();
    device_memory();
    if (then_ && !then_(*program_)) throw Stopped{};
    program_.reset();  // the ceiling needs room
    rates();
    if (loss) require_number(*loss);
  }

  // Also worth having from a run that failed half way.
  void memory() {
    if (!program_) return;
    const MemoryUse use = program_->memory_use();
    record_memory(use, program_->before_backward_bytes());
    if (has_iterated_) record_.memory_bytes.allocated_at_end = static_cast<std::int64_t>(use.allocated_bytes);
  }

 private:
  Record::TrainingStep& step() { return *record_.training_step; }
  bool computes() const { return device_->kind() != "null"; }

  void enter(Stage stage, std::int64_t index = 0, std::int64_t count = 0) const {
    if (watch_ && !watch_({stage, index, count})) throw Stopped{};
  }

  StopPoint stop_point(Stage stage) const {
    return [this, stage] { enter(stage); };
  }
  ProgramOptions options() const { return ProgramOptions{.stop_point = stop_point(Stage::planning)}; }

  // Whether it fits is known here.
  ProgramPlan planned() {
    ProgramOptions program_options = options();
    program_options.compile = compile_options(config_);
    program_options.compile.after_pass = [&](const PassResult& pass, const Graph& graph) {
      if (pass.name == last_training_pass()) record_.attention_fallback = attention_fallback(graph, *device_);
    };
    ProgramPlan plan(build_transformer(config_.model, config_.batch, stop_point(Stage::planning)), device_,
                     program_options);
    MemoryForecast forecast = forecast_memory(plan, std::nullopt, stop_point(Stage::planning));
    record_.memory_bytes.planned_peak = static_cast<std::int64_t>(forecast.use.peak_allocated_bytes);
    if (!config_.run_anyway || !computes()) forecast = require_room(plan, forecast, stop_point(Stage::planning));
    if (!computes()) record_memory(forecast.use, forecast.before_backward_bytes);
    return plan;
  }

  void record_memory(const MemoryUse& use, std::size_t before_backward_bytes) {
    record_.memory_bytes.peak_allocated = static_cast<std::int64_t>(use.peak_allocated_bytes);
    record_.memory_bytes.peak_reserved = static_cast<std::int64_t>(use.peak_reserved_bytes);
    record_.memory_bytes.peak_requested = static_cast<std::int64_t>(use.peak_requested_bytes);
    if (before_backward_bytes > 0) {
      record_.memory_bytes.before_backward = static_cast<std::int64_t>(before_backward_bytes);
    }
  }

  // While the program is alive: what it reserved is told from what the libraries took.
  void device_memory() {
    const std::optional<std::size_t> free_bytes = device_->free_memory_bytes();
    const std::optional<std::int64_t> at_start = device_->facts().used_at_start_bytes;
    const std::optional<std::int64_t> card_bytes = device_->facts().memory_bytes;
    if (!free_bytes || !at_start || !card_bytes) return;
    const std::int64_t used = *card_bytes - static_cast<std::int64_t>(*free_bytes);
    const auto reserved = static_cast<std::int64_t>(program_->memory_use().reserved_bytes);
    record_.memory_bytes.device_used = used;
    record_.memory_bytes.device_at_start = at_start;
    record_.memory_bytes.device_libraries = std::max<std::int64_t>(used - *at_start - reserved, 0);
  }

  void write_data() {
    write_parameters(*program_, config_, stop_point(Stage::initialising));
    write_random_tokens(*program_, config_.model, static_cast<std::uint64_t>(config_.seed));
  }

  // Empty where the mode has none.
  std::optional<double> last_loss() const {
    if (config_.mode == Mode::forward) return std::nullopt;
    return convert(program_->read_output("loss"), DType::fp64).as<double>()[0];
  }

  void require_number(double loss) const {
    if (std::isfinite(loss)) return;
    throw Error(fmt::format("the loss is {} after {} iterations{}", std::isnan(loss) ? "NaN" : "infinite",
                            config_.warmup + config_.steps,
                            config_.detect_anomaly ? "" : "; bench --detect-anomaly names the node that began it"));
  }

  void loss_scaling() {
    if (config_.mode != Mode::step) return;
    if (!program_->graph().find_input("optimizer.loss_scale")) return;
    step().loss_scaling.scale = program_->read_input("optimizer.loss_scale").as<float>()[0];
    step().loss_scaling.skipped_steps =
        static_cast<std::int64_t>(program_->read_input("optimizer.skipped_steps").as<float>()[0]);
  }

  void iterate() {
    std::optional<AnomalyDetector> detector;
    if (config_.detect_anomaly) detector.emplace(*program_);
    const std::unique_ptr<DeviceTimer> timer = device_->make_timer();
    for (std::int64_t i = 0; i < config_.warmup; ++i) {
      enter(Stage::warmup, i, config_.warmup);
      step().warmup_ms.push_back(one_iteration(*timer).host_ms);
      refuse_anomaly(detector, i);
    }
    std::vector<double> host_ms, device_ms;
    ProcessorWait wait;
    wait.start();
    for (std::int64_t i = 0; i < config_.steps; ++i) {
      enter(Stage::timing, i, config_.steps);
      const Elapsed elapsed = one_iteration(*timer);
      host_ms.push_back(elapsed.host_ms);
      device_ms.push_back(elapsed.device_ms);
      refuse_anomaly(detector, config_.warmup + i);
    }
    has_iterated_ = true;
    wait.stop();
    describe_wait(record_, wait);
    step().time_ms = describe(std::move(host_ms));
    step().device_time_ms = describe(std::move(device_ms));
  }

  static void refuse_anomaly(const std::optional<AnomalyDetector>& detector, std::int64_t iteration) {
    if (!detector || !detector->first()) return;
    throw Error(fmt::format("anomaly in iteration {}: {}", iteration + 1, *detector->first()));
  }

  struct Elapsed {
    double host_ms;
    double device_ms;
  };

  Elapsed one_iteration(DeviceTimer& timer) {
    const Clock::time_point begin = Clock::now();
    timer.start();
    program_->run();
    timer.stop();
    program_->synchronize();
    const std::chrono::duration<double, std::milli> host = Clock::now() - begin;
    return {host.count(), timer.elapsed_ms()};
  }

  void rates() {
    const double seconds = step().time_ms.mean / 1e3;
    if (!(seconds > 0)) return;
    step().tokens_per_second = static_cast<double>(config_.batch * config_.model.context) / seconds;
    step().achieved_flops_per_second = static_cast<double>(*step().flops_per_step) / seconds;
    mfu();
    enter(Stage::measuring_ceiling);
    step().ceiling_flops_per_second =
        ceilings_.matmul(config_.device, config_.device_options.threads, precision_from_name(config_.dtype),
                         stop_point(Stage::measuring_ceiling));
    if (step().ceiling_flops_per_second) {
      step().ceiling_share = *step().achieved_flops_per_second / *step().ceiling_flops_per_second;
    }
  }

  void mfu() {
    const Datasheet* sheet = find_datasheet(record_.device.name);
    if (sheet == nullptr) return;
    if (const std::optional<double> rate = datasheet_flops_per_second(*sheet, name(record_.dtype))) {
      step().mfu = *step().achieved_flops_per_second / *rate;
    }
  }

  const StepConfig& config_;
  CeilingCache& ceilings_;
  const StepWatcher& watch_;
  const StepFollowUp& then_;
  Record& record_;
  std::shared_ptr<Device> device_;
  std::optional<Program> program_;
  bool has_iterated_ = false;
};

}  // namespace

std::string_view name(Stage stage) { return kStageNames[stage]; }

HostTensor initial_value(const StepConfig& config, const ParameterDeclaration& parameter, const StopPoint& stop_point) {
  if (config.weights) return config.weights->read(parameter);
  return initial_parameter(parameter.name, parameter.type, static_cast<std::uint64_t>(config.seed), stop_point);
}

void write_parameters(Program& program, const StepConfig& config, const StopPoint& stop_point) {
  initialise_constants(program, config.model);
  for (const ParameterDeclaration& parameter : transformer_parameters(config.model)) {
    if (stop_point) stop_point();
    program.write_input(parameter.name, initial_value(config, parameter, stop_point));
  }
}

CompileOptions compile_options(const StepConfig& config) {
  CompileOptions options;
  options.mode = config.mode;
  options.precision = precision_from_name(config.dtype);
  options.compile = compile_from_name(config.compile);
  return options;
}

std::optional<Record> measure_step(const StepConfig& config, CeilingCache& ceilings, const StepWatcher& watch,
                                   const StepFollowUp& then) {
  Record record = describe_run(config);
  Run run(config, ceilings, watch, then, record);
  try {
    record_outcome(record, [&] { run.all_stages(); });
  } catch (const Stopped&) {
    return std::nullopt;
  }
  run.memory();
  return record;
}

}  // namespace ridgepoint
