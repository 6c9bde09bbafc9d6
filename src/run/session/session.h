// A session runs a workload, for any experiment: it opens the device, compiles and plans, checks that the plan fits,
// makes and initialises the program, iterates, and fills the fields that all records share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "predict/forecast.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// The progress of a run: iteration `index` of `count` is about to start (in warmup, timing and profiling), and `share`
// of all iterations is done.
struct StepProgress {
  enum class Stage : std::uint8_t {
    planning,
    initialising,
    measuring_ceiling,
    warmup,
    timing,
    profiling,
    measuring_peer
  };
  Stage stage = Stage::planning;
  std::int64_t index = 0;
  std::int64_t count = 0;
  double share = 0;
};
std::string_view name(StepProgress::Stage stage);

// Called before every stage and iteration, and repeatedly during the initialisation of a large model. Returning false
// stops the run.
using StepWatcher = std::function<bool(const StepProgress&)>;

class Session {
 public:
  using Stage = StepProgress::Stage;

  // Opens the device, on all ranks or on none. `repeats`: how often iterate() will be called, for the progress. All
  // members throw Error, and call stop_run() if the watcher returns false.
  Session(const RunConfig& config, StepWatcher watch, Record& record, std::int64_t repeats = 1);

  const RunConfig& config() const { return config_; }
  Record& record() { return record_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  bool computes() const { return device_->kind() != "null"; }
  // How ranks divide the run, as configured or as chosen by plan().
  const ParallelOptions& parallel() const { return parallel_; }
  const Communicator* communicator() const { return communicator_.get(); }  // null for one rank

  // Reports the progress to the watcher.
  void enter(Stage stage, std::int64_t index = 0, std::int64_t count = 0);
  StopPoint stop_point(Stage stage);

  // Compiles and plans the workload's graph, in the given mode or that of the configuration. Records the fallback of
  // flash attention, and the recomputation. Checkpoint::automatic fits the plan into `limit`, or without a capacity
  // into the available memory of every rank, and records the policies found; if no plan fits, it takes the one with the
  // least memory. Sharding and buckets are chosen in the same way, and all ranks choose the same. If it fails on one
  // rank, it fails on all.
  ProgramPlan plan(const MemoryLimit& limit = {}) { return plan(config_.compile.mode, limit); }
  ProgramPlan plan(Mode mode, const MemoryLimit& limit = {});

  std::size_t available_bytes() const;  // available_on_ranks of the session's device and group

  // With the peaks of the iterations after `warmup` others.
  MemoryForecast forecast(const ProgramPlan& plan, std::int64_t warmup = 0);
  // The forecast with the available memory. Throws OutOfMemory on all ranks if the plan of one does not fit, unless the
  // configuration has `run_anyway`.
  MemoryForecast require_room(const ProgramPlan& plan, const MemoryForecast& forecast);

  // `trace`, if given, records the allocations. If it fails on one rank, or if ranks would run different collectives,
  // it fails on all.
  Program make(const ProgramPlan& plan, MemoryTrace* trace = nullptr);
  // Writes parameters and data. If it fails on one rank, it fails on all.
  void initialise(Program& program);
  // Plans the workload, checks that it fits, and makes and initialises the program. Records the planned peak.
  Program ready_program();
  // The peak of the bytes that the program's runs reserve, by its forecast.
  std::size_t ready_peak_bytes() const { return ready_peak_bytes_; }

  struct Elapsed {
    double host_ms = 0;    // synchronisation with the device included
    double device_ms = 0;  // by the device's clock
  };
  struct Times {
    std::vector<double> warmup_ms, host_ms, device_ms;
    TimingSection timing;  // why the iterations ended, and the state of the machine around them
  };
  // Warm-up and timed iterations; `iteration` gets its number, counted from 0 over both. Records threads_waiting, and
  // with RunConfig::until the number of timed iterations.
  using Iteration = std::function<Elapsed(std::int64_t)>;
  Times iterate(const Iteration& iteration);
  // Times one run of the program and waits for it.
  static Elapsed run_once(Program& program, DeviceTimer& timer);

  // Whether rank 0 says so; called by all ranks of the run.
  bool first_rank_says(bool answer) const;

  // Records how the last run of the program launched its kernels: captured, or why not.
  void record_launching(const Program& program);
  // Records the peaks, the memory before backward and the lower bound.
  void record_memory(const MemoryForecast& found);
  // Records the memory in use that a GPU's driver reports: in all, at the start, and by libraries, which is the rest
  // beside the program's memory.
  void record_device_memory(const Program& program);

 private:
  std::vector<double> warm_up(const Iteration& iteration);
  Graph build_graph(const StopPoint& stop_point);
  MemoryLimit known_limit(MemoryLimit limit) const;
  void choose_parallel(Mode mode, const MemoryLimit& limit);
  ProgramPlan choose_offload(Mode mode, const MemoryLimit& limit);
  ProgramPlan plan_within(Mode mode, const MemoryLimit& limit);
  ProgramPlan choose_checkpoints(Mode mode, const MemoryLimit& limit);
  ProgramPlan plan_with(Mode mode, const BlockCheckpoints& blocks);
  // A run with a time budget ends when it likes.
  ForecastOptions forecast_options();

  const RunConfig& config_;
  StepWatcher watch_;
  Record& record_;
  ParallelOptions parallel_;
  Offload offload_;
  bool recomputes_ = false;  // by the checkpoints that were last chosen
  std::shared_ptr<Device> device_;
  std::shared_ptr<Communicator> communicator_;  // null for one rank
  std::size_t ready_peak_bytes_ = 0;
  std::int64_t iterations_;           // of all stages together
  std::int64_t iterations_done_ = 0;  // of the stages before this one
};

// The record of a configuration before the run; the device is not opened.
Record describe_run(const RunConfig& config, Experiment experiment);

// Runs `stages`, which fill the record. An error in a stage becomes the record's status. Empty if the watcher stopped
// it.
std::optional<Record> record_run(Record record, const std::function<void(Record&)>& stages);

// Ends the enclosing is_stopped().
[[noreturn]] void stop_run();
// Whether `run` ended by stop_run().
bool is_stopped(const std::function<void()>& run);

// The part of the set that applies to the mode; Offload::automatic stays.
constexpr Offload offload_in(Mode mode, Offload set) {
  if (set == Offload::automatic) return set;
  Offload kept = Offload::none;
  if (mode == Mode::step && includes(set, Offload::optimizer)) kept = kept | Offload::optimizer;
  if (includes(set, Offload::parameters)) kept = kept | Offload::parameters;
  if (runs_backward(mode) && includes(set, Offload::activations)) kept = kept | Offload::activations;
  return kept;
}

// The non-empty sets from which Offload::automatic chooses; a set comes after its subsets.
inline std::vector<Offload> offload_sets(Mode mode) {
  std::vector<Offload> sets;
  for (const Offload set : kAllOffloads) {
    const bool is_set = set != Offload::none && set != Offload::automatic;
    if (is_set && offload_in(mode, set) == set) sets.push_back(set);
  }
  return sets;
}

}  // namespace ridgepoint
