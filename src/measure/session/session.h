// One session runs a workload for every experiment: it opens the device, compiles and plans, asks whether the plan
// fits, makes and initialises the program, iterates, and records what all experiments have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "measure/memory/forecast.h"
#include "ridgepoint/run_config.h"
#include "ridgepoint/record.h"
#include "runtime/device.h"

namespace ridgepoint {

// Where a run stands: iteration `index` of `count` is about to start (the last three stages have iterations), and
// `share` of all iterations is done.
struct StepProgress {
  enum class Stage : std::uint8_t { planning, initialising, measuring_ceiling, warmup, timing, profiling };
  Stage stage = Stage::planning;
  std::int64_t index = 0;
  std::int64_t count = 0;
  double share = 0;
};
std::string_view name(StepProgress::Stage stage);

// Called before every stage and iteration, and again and again while a large model is made and initialised; false
// stops the run there.
using StepWatcher = std::function<bool(const StepProgress&)>;

class Session {
 public:
  using Stage = StepProgress::Stage;

  // Opens the device. `repeats`: how often warm-up and timed iterations are run, for the share that is done. Throws
  // Error, as everything here does, and stops (stop_run()) where the watcher says so.
  Session(const RunConfig& config, const StepWatcher& watch, Record& record, std::int64_t repeats = 1);

  const RunConfig& config() const { return config_; }
  Record& record() { return record_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  bool computes() const { return device_->kind() != "null"; }

  // Tells the watcher where the run stands.
  void enter(Stage stage, std::int64_t index = 0, std::int64_t count = 0);
  StopPoint stop_point(Stage stage);

  // The workload's graph, compiled in the configuration's mode or another, and planned. What flash attention falls back
  // to is recorded.
  ProgramPlan plan() { return plan(config_.compile.mode); }
  ProgramPlan plan(Mode mode);

  MemoryForecast forecast(const ProgramPlan& plan);
  // The forecast with what is available; `run_anyway` asks nothing of a device that computes. Throws OutOfMemory.
  MemoryForecast require_room(const ProgramPlan& plan, const MemoryForecast& forecast);

  Program make(const ProgramPlan& plan);
  // Parameters, given or made from the seed, and data.
  void initialise(Program& program);

  struct Elapsed {
    double host_ms = 0;    // around the iteration and the wait for the device
    double device_ms = 0;  // by the device's own clock
  };
  struct Times {
    std::vector<double> warmup_ms, host_ms, device_ms;
  };
  // Warm-up and timed iterations; `iteration` gets its number, counted from 0 over both. How much other programs kept
  // the processor busy meanwhile is recorded.
  Times iterate(const std::function<Elapsed(std::int64_t)>& iteration);
  // One run of the program between two marks of the timer, and the wait for it.
  static Elapsed run_once(Program& program, DeviceTimer& timer);

  // Peaks, and what is held before backward.
  void record_memory(const MemoryUse& use, std::size_t before_backward_bytes);

 private:
  const RunConfig& config_;
  const StepWatcher& watch_;
  Record& record_;
  std::shared_ptr<Device> device_;
  std::int64_t iterations_;           // of all stages together
  std::int64_t iterations_done_ = 0;  // of the stages before this one
};

// A record of the experiment, with what the configuration says of it. Its device is not opened.
Record describe_run(const RunConfig& config, Experiment experiment);

// What `stages` makes of the record. Never throws for what befalls the run itself: that becomes the record's status.
// Empty when the watcher stopped it.
std::optional<Record> record_run(Record record, const std::function<void(Record&)>& stages);

// Ends the run that is_stopped() watches over: what a watcher asks for by returning false.
[[noreturn]] void stop_run();
// Whether `run` ended by stop_run().
bool is_stopped(const std::function<void()>& run);

}  // namespace ridgepoint
