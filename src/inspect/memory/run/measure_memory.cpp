#include "inspect/memory/run/measure_memory.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "core/text/json.h"
#include "core/text/throw_error.h"
#include "inspect/memory/run/record_history.h"
#include "ir/scope.h"
#include "predict/formula.h"
#include "run/session/ranks.h"
#include "runtime/device/activity.h"
#include "runtime/device/communicator.h"
#include "runtime/device/host_device.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;

constexpr std::size_t kMostEvents = std::size_t{1} << 25;  // 1.3 GB

// The residual sum of a block: its scope is the block's, and it has a row for each token.
std::optional<ResidualActivation> residual_activation(const Graph& graph, const SymbolSizes& sizes) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const std::string& scope = graph.scope_name(node);
    if (node.phase != Phase::forward || scope.empty() || block_of(scope) != scope) continue;
    for (const Value value : node.outputs) {
      const TensorType& type = graph.type(value);
      const std::string shape = shape_in_symbols(type.shape);
      if (shape == "B S D" || shape == "T D") return ResidualActivation{type.bytes(), bytes_formula(type, sizes)};
    }
  }
  return std::nullopt;
}

Json to_json(const std::optional<std::size_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

std::optional<std::size_t> optional_bytes(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<std::size_t>());
}

RankMemory memory_of_rank(std::size_t rank, const MemoryReport& report) {
  RankMemory memory{
      .rank = rank, .peak_bytes = report.peak.allocated_bytes, .peak_reserved_bytes = report.peak.reserved_bytes};
  if (!report.phases.empty()) memory.initialised_bytes = report.phases.front().begin_bytes;
  const auto last =
      std::ranges::find_if(report.phases.rbegin(), report.phases.rend(), [](const auto& p) { return p.depth == 0; });
  for (auto phase = last.base(); phase != report.phases.end(); ++phase) {
    if (phase->name != name(Phase::optimizer)) continue;
    if (!memory.before_optimizer_bytes) memory.before_optimizer_bytes = phase->begin_bytes;
    memory.after_optimizer_bytes = phase->end_bytes;
  }
  return memory;
}

// Those of all ranks, in their order; called by all of them. Throws Error after the time limit of the group.
std::vector<RankMemory> gather_memory(ProcessGroup& group, const RankMemory& mine) {
  const Json sent = {mine.initialised_bytes,
                     to_json(mine.before_optimizer_bytes),
                     to_json(mine.after_optimizer_bytes),
                     mine.peak_bytes,
                     mine.peak_reserved_bytes,
                     to_json(mine.host_bytes)};
  std::vector<RankMemory> all;
  for (const std::string& text : group.all_gather(dump_json(sent), "memory")) {
    const Json got = parse_json(text);
    all.push_back({.rank = all.size(),
                   .initialised_bytes = got[0],
                   .before_optimizer_bytes = optional_bytes(got[1]),
                   .after_optimizer_bytes = optional_bytes(got[2]),
                   .peak_bytes = got[3],
                   .peak_reserved_bytes = got[4],
                   .host_bytes = optional_bytes(got[5])});
  }
  return all;
}

class Run {
 public:
  Run(const RunConfig& config, const StepWatcher& watch, Record& record, MemoryRun& found)
      : config_(config), record_(record), found_(found), session_(config, watch, record) {}

  void all_stages() {
    const ProgramPlan plan = session_.plan();
    describe_ranks(session_.parallel(), plan.graph(), record_.training_step->parallel);
    const MemoryForecast forecast = session_.forecast(plan);
    // The first iteration may take more than the later ones, which the history has.
    const MemoryForecast behind_warmup = config_.warmup > 0 ? session_.forecast(plan, config_.warmup) : forecast;
    record_.memory_bytes.planned_peak = static_cast<std::int64_t>(behind_warmup.use.peak_allocated_bytes);
    MemoryTrace trace(most_events(plan));
    const SymbolSizes sizes = symbol_sizes(config_.workload->describe());
    HistoryRecorder recorder(plan, trace, sizes);
    const std::size_t available = session_.available_bytes();
    try {
      session_.require_room(plan, forecast);
      Program program = session_.make(plan, &trace);
      if (session_.computes()) session_.initialise(program);
      together([&] {
        record(program, recorder);
        analyse(observe_work(program));
        compare_ranks();
      });
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::out_of_memory) keep_failure(available, recorder, trace);
      throw;
    }
    // Fusion may put the sum into a node with others.
    found_.residual =
        residual_activation(training_graph(config_.workload->build(),
                                           {.mode = config_.compile.mode, .precision = config_.compile.precision}),
                            sizes);
    found_.plan = plan;
  }

 private:
  std::size_t most_events(const ProgramPlan& plan) const {
    const std::size_t events =
        HistoryRecorder::most_events(plan, static_cast<std::size_t>(config_.warmup + config_.steps));
    if (events <= kMostEvents) return events;
    throw_error(ErrorKind::usage,
                "the history of {} iterations would have up to {} events, and {} are recorded at most; "
                "give fewer --warmup and --steps",
                config_.warmup + config_.steps, events, kMostEvents);
  }

  // A rank that fails here leaves the others in a collective: none can go on.
  void together(const std::function<void()>& iterations) {
    if (config_.group == nullptr) return iterations();
    try {
      iterations();
    } catch (const std::exception& error) {
      throw LostRanks{error.what()};
    }
  }

  void compare_ranks() {
    const ParallelOptions& parallel = config_.compile.parallel;
    if (!parallel.is_parallel()) return;
    RankMemory mine = memory_of_rank(static_cast<std::size_t>(parallel.rank), found_.memory.report);
    if (record_.memory_bytes.host) mine.host_bytes = static_cast<std::size_t>(*record_.memory_bytes.host);
    found_.ranks = config_.group != nullptr ? gather_memory(*config_.group, mine) : std::vector{mine};
  }

  void keep_failure(std::size_t available_bytes, HistoryRecorder& recorder, const MemoryTrace& trace) {
    const bool has_run = trace.size() > 0;
    if (!has_run) recorder.walk(available_bytes, config_.warmup + config_.steps);
    found_.snapshot =
        recorder.finish(static_cast<std::size_t>(config_.warmup), has_run && session_.computes()).snapshot;
    found_.memory = analyse_memory(found_.snapshot, 0);
  }

  void record(Program& program, HistoryRecorder& recorder) {
    const std::int64_t count = config_.warmup + config_.steps;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool counts = i >= config_.warmup;
      session_.enter(counts ? Stage::timing : Stage::warmup, counts ? i - config_.warmup : i,
                     counts ? config_.steps : config_.warmup);
      if (i == config_.warmup) program.reset_peak_memory();
      recorder.iterate(program);
    }
    session_.record_memory(memory_of(program));
    record_.memory_bytes.allocated_at_end = static_cast<std::int64_t>(program.memory_use().allocated_bytes);
    session_.record_device_memory(program);
    found_.snapshot = recorder.finish(static_cast<std::size_t>(config_.warmup), session_.computes()).snapshot;
  }

  void analyse(const std::optional<DeviceWork>& work) {
    found_.memory = analyse_memory(found_.snapshot, 0, {}, work);
    const std::size_t peak = found_.memory.report.contents.at.moment;
    const auto iteration = std::ranges::find_if(found_.memory.report.phases, [&](const MemoryPhase& phase) {
      return phase.depth == 0 && phase.begin.moment < peak && peak <= phase.end.moment;
    });
    if (iteration == found_.memory.report.phases.end()) return;
    found_.requests = requests_between(found_.snapshot, found_.memory.lifetimes, iteration->begin.moment,
                                       iteration->end.moment, peak);
  }

  // One more iteration, under the device's profiler.
  std::optional<DeviceWork> observe_work(Program& program) {
    if (!session_.computes() || config_.steps < 2) return std::nullopt;
    session_.enter(Stage::profiling);
    std::unique_ptr<ActivityRecorder> recorder;
    try {
      recorder = program.device().make_activity_recorder();
      recorder->start(program.launches_per_run());
    } catch (const Error& error) {
      found_.work_problem = error.what();
    }
    if (const std::string problem =
            problem_of_ranks(config_.group.get(), found_.work_problem, "whether profilers record");
        !problem.empty()) {
      found_.work_problem = problem;
      return std::nullopt;
    }
    bool has_run = false;
    try {
      const std::int64_t begin_ns = steady_now_ns();
      {
        const Observation observation(program, *recorder);
        program.run();
        program.synchronize();
      }
      const std::int64_t end_ns = steady_now_ns();
      has_run = true;
      return work_between(begin_ns, end_ns, recorder->stop());
    } catch (const Error& error) {
      if (config_.group != nullptr && !has_run) throw;
      found_.work_problem = error.what();
      return std::nullopt;
    }
  }

  static DeviceWork work_between(std::int64_t begin_ns, std::int64_t end_ns, ActivityLog log) {
    std::ranges::sort(log.activities, {}, &Activity::start_ns);
    BusyTime busy(begin_ns, end_ns);
    for (const Activity& activity : log.activities) busy.add(activity.start_ns, activity.duration_ns);
    return {static_cast<double>(busy.busy_ns()) / 1e6, static_cast<double>(end_ns - begin_ns) / 1e6};
  }

  const RunConfig& config_;
  Record& record_;
  MemoryRun& found_;
  Session session_;
};

}  // namespace

std::optional<MemoryRun> measure_memory(const RunConfig& config, const StepWatcher& watch) {
  MemoryRun found;
  std::optional<Record> record = record_run(describe_run(config, Experiment::memory), [&](Record& record_of_run) {
    Run(config, watch, record_of_run, found).all_stages();
  });
  if (!record) return std::nullopt;
  found.run = std::move(*record);
  return found;
}

}  // namespace ridgepoint
