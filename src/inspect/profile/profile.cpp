#include "inspect/profile/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "inspect/profile/communication.h"
#include "ops/rule.h"
#include "predict/time/forecast_time.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/inspect/measure.h"
#include "run/session/ranks.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/device/host_device.h"

namespace ridgepoint {
namespace {

// In the order of Phase.
constexpr std::array kPhases = {ProfilePhase::forward, ProfilePhase::loss, ProfilePhase::recompute,
                                ProfilePhase::backward, ProfilePhase::optimizer};

// The data of a launch that is the same in every step.
struct LaunchFacts {
  KernelRecord blank;
  Cost cost;
};

std::vector<LaunchFacts> facts_of(const Program& program) {
  const Graph& graph = program.graph();
  std::vector<LaunchFacts> facts;
  for (const LaunchInfo& launch : program.launches()) {
    const Node& node = graph.node(launch.node);
    LaunchFacts& entry = facts.emplace_back();
    entry.cost = cost(graph, node);
    entry.blank = record_of(graph, node);
    entry.blank.name = launch.kernel;
    entry.blank.node = launch.node.id;
  }
  return facts;
}

std::map<std::uint32_t, NodeTensors> tensors_of(const Program& program) {
  const Graph& graph = program.graph();
  const std::vector<std::size_t> live_bytes = program.live_bytes_by_launch();
  const std::vector<LaunchInfo> launches = program.launches();
  std::map<std::uint32_t, NodeTensors> nodes;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Node& node = graph.node(launches[i].node);
    NodeTensors& tensors = nodes[launches[i].node.id];
    for (const Value value : node.inputs) tensors.inputs.push_back(graph.type(value));
    for (const Value value : node.outputs) tensors.outputs.push_back(graph.type(value));
    tensors.live_bytes = live_bytes[i];
  }
  return nodes;
}

// The step of an activity: by its run if known, else by its start.
std::optional<std::uint32_t> step_of(const Activity& activity, const std::vector<ProfiledStep>& steps) {
  if (activity.run < steps.size()) return activity.run;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    if (activity.start_ns >= steps[i].begin_ns && activity.start_ns < steps[i].end_ns) return i;
  }
  return std::nullopt;
}

void copy_times(KernelRecord& record, const Activity& activity, std::int64_t base_ns) {
  record.start_ns = activity.start_ns - base_ns;
  record.duration_ns = activity.duration_ns;
  record.call_start_ns = activity.call_start_ns - base_ns;
  record.call_duration_ns = activity.call_duration_ns;
  record.stream = activity.stream;
  record.grid = activity.grid;
  record.block = activity.block;
  record.registers = activity.registers;
  record.shared_bytes = activity.shared_bytes;
}

// Copies and fills have their own class, and fills their own phase, whichever node launched them. Copies and fills of a
// collective belong to it: on a GPU a fill before and a fill after it mark that it runs.
void set_purpose(KernelRecord& record, ActivityKind kind) {
  record.kind = kind;
  if (kind == ActivityKind::kernel || record.kernel_class == KernelClass::communication) return;
  record.kernel_class = KernelClass::memory_movement;
  if (kind == ActivityKind::fill) record.phase = ProfilePhase::zeroing;
}

// Assigns the cost of each launch to the longest of its activities. Sums over all steps decide, so that it is the same
// activity in every step. `launch_of` has one entry for each record.
void assign_costs(std::vector<KernelRecord>& records, const std::vector<std::uint32_t>& launch_of,
                  const std::vector<LaunchFacts>& facts) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> seen;  // {step, launch} -> activities so far
  std::map<std::uint32_t, std::vector<std::int64_t>> totals;              // launch -> time of its first, second, ...
  std::vector<std::uint32_t> ordinal(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (launch_of[i] == kNoLaunch) continue;
    ordinal[i] = seen[{records[i].step, launch_of[i]}]++;
    std::vector<std::int64_t>& times = totals[launch_of[i]];
    times.resize(std::max<std::size_t>(times.size(), ordinal[i] + 1));
    times[ordinal[i]] += records[i].duration_ns;
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (launch_of[i] == kNoLaunch) continue;
    const std::vector<std::int64_t>& times = totals[launch_of[i]];
    if (std::ranges::max_element(times) - times.begin() != ordinal[i]) continue;
    records[i].flops = facts[launch_of[i]].cost.flops;
    records[i].bytes = facts[launch_of[i]].cost.bytes;
  }
}

// The host time of before_launch() and after_launch() together.
double measure_recording_ns(ActivityRecorder& recorder) {
  constexpr std::uint32_t kCalls = 4096;
  recorder.start(kCalls);
  recorder.run_begins();
  const std::int64_t begin_ns = steady_now_ns();
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    recorder.before_launch(i);
    recorder.after_launch(i);
  }
  const std::int64_t end_ns = steady_now_ns();
  recorder.run_ends();
  recorder.stop();
  return static_cast<double>(end_ns - begin_ns) / kCalls;
}

struct Recording {
  ActivityLog log;
  std::vector<ProfiledStep> steps;
  bool captured = false;
};

// The launch of a host collective ends before the collective does, so the thread that runs the collective takes its
// times.
void use_times_of_collectives(ActivityLog& log, const Program& program, const std::vector<CollectiveSpan>& spans) {
  constexpr std::uint32_t kStream = 1;
  const std::vector<LaunchInfo> launches = program.launches();
  std::vector<Activity*> collectives;
  for (Activity& activity : log.activities) {
    if (activity.launch >= launches.size()) continue;
    const Node& node = program.graph().node(launches[activity.launch].node);
    if (op_class(node.op) == OpClass::collective) collectives.push_back(&activity);
  }
  if (collectives.size() != spans.size()) return;  // the device's recorder has them
  for (std::size_t i = 0; i < spans.size(); ++i) {
    collectives[i]->start_ns = spans[i].begin_ns;
    collectives[i]->duration_ns = spans[i].end_ns - spans[i].begin_ns;
    collectives[i]->stream = kStream;
  }
}

Recording record_steps(Session& session, Program& program, ActivityRecorder& recorder) {
  const std::int64_t count = session.config().profiled_steps;
  ProcessGroup* group = session.config().group.get();
  Recording recording;
  if (group != nullptr) group->note_collectives();
  recorder.start(program.launches_per_run() * static_cast<std::size_t>(count + 1));
  {
    const Observation observation(program, recorder);
    // The first run is not profiled, because it allocates the recorder's buffers, and may be captured.
    program.run();
    program.synchronize();
    for (std::int64_t i = 0; i < count; ++i) {
      session.enter(StepProgress::Stage::profiling, i, count);
      ProfiledStep step;
      step.begin_ns = steady_now_ns();
      program.run();
      program.synchronize();
      step.end_ns = steady_now_ns();
      recording.steps.push_back(step);
    }
    recording.captured = program.is_captured();
  }
  recording.log = recorder.stop();
  if (group != nullptr) use_times_of_collectives(recording.log, program, group->take_collectives());
  std::erase_if(recording.log.activities, [](const Activity& activity) { return activity.run == 0; });
  for (Activity& activity : recording.log.activities) {
    if (activity.run != kNoRun) --activity.run;
  }
  return recording;
}

// Whether some activity of a run belongs to no launch.
bool has_strays(const ActivityLog& log) {
  return std::ranges::any_of(
      log.activities, [](const Activity& activity) { return activity.run != kNoRun && activity.launch == kNoLaunch; });
}

// Throws Error on all ranks where one of them cannot record.
std::unique_ptr<ActivityRecorder> make_recorder(Profile& profile, ProcessGroup* group, Program& program) {
  std::unique_ptr<ActivityRecorder> recorder;
  std::string problem;
  try {
    recorder = program.device().make_activity_recorder();
    profile.recording_ns = measure_recording_ns(*recorder);
  } catch (const Error& error) {
    problem = error.what();
  }
  problem = problem_of_ranks(group, problem, "whether profilers record");
  if (!problem.empty()) throw Error(problem, ErrorKind::unsupported);
  return recorder;
}

void record_profile(Profile& profile, Session& session, Program& program, ActivityRecorder& recorder) {
  ProcessGroup* group = session.config().group.get();
  const bool was_captured = program.is_captured();
  Recording recording = record_steps(session, program, recorder);
  const bool repeats = recording.captured && has_strays(recording.log);
  if (!problem_of_ranks(group, repeats ? "strays" : "", "what profilers recorded")
           .empty()) {  // all ranks run the same steps
    recorder.refuse_captures();
    recording = record_steps(session, program, recorder);
  }
  profile.captured = recording.captured;
  if (was_captured && !recording.captured) {
    profile.capture_note =
        "The profiler cannot tell which node a kernel of a captured run belongs to, so the profiled steps launch their "
        "kernels one by one; the timed ones repeat a captured run.";
  }
  fill_profile(profile, program, recording.steps, std::move(recording.log));
  if (group != nullptr) compare_ranks(profile, *group);
}

// If a rank fails between the others' steps, they wait in a collective, so no rank can go on.
void record_on_ranks(Profile& profile, Session& session, Program& program) {
  ProcessGroup* group = session.config().group.get();
  std::unique_ptr<ActivityRecorder> recorder;
  try {
    recorder = make_recorder(profile, group, program);
    record_profile(profile, session, program, *recorder);
  } catch (const Error& error) {
    if (group != nullptr && recorder != nullptr) throw LostRanks{error.what()};
    profile.problem = error.what();
  }
}

}  // namespace

KernelRecord record_of(const Graph& graph, const Node& node) {
  KernelRecord record;
  record.op = name(node.op);
  record.phase = kPhases[static_cast<std::size_t>(node.phase)];
  record.kernel_class = kernel_class(graph, node);
  record.scope = graph.scope_name(node);
  return record;
}

void fill_profile(Profile& profile, const Program& program, const std::vector<ProfiledStep>& steps, ActivityLog log) {
  if (steps.empty()) return;
  const std::vector<LaunchFacts> facts = facts_of(program);
  const std::int64_t base_ns = profile.begin_ns = steps.front().begin_ns;
  std::ranges::stable_sort(log.activities, {}, &Activity::start_ns);
  std::vector<KernelRecord> records;
  std::vector<std::uint32_t> launch_of;
  std::vector<bool> has_record(facts.size() * steps.size());
  for (const Activity& activity : log.activities) {
    const std::optional<std::uint32_t> step = step_of(activity, steps);
    if (!step) continue;
    const bool known = activity.launch < facts.size();
    KernelRecord& record = records.emplace_back(known ? facts[activity.launch].blank : KernelRecord{});
    launch_of.push_back(known ? activity.launch : kNoLaunch);
    if (known) has_record[*step * facts.size() + activity.launch] = true;
    if (!activity.name.empty()) record.name = activity.name;
    record.step = *step;
    copy_times(record, activity, base_ns);
    set_purpose(record, activity.kind);
  }
  assign_costs(records, launch_of, facts);
  profile.kernels = std::move(records);
  profile.nodes = tensors_of(program);
  profile.dropped_records = log.dropped;
  profile.silent_launches = static_cast<std::uint64_t>(std::ranges::count(has_record, false));
  for (const ProfiledStep& step : steps) profile.steps.push_back({step.begin_ns - base_ns, step.end_ns - base_ns});
}

std::optional<Record> measure_step_on_rank(const RunConfig& config, CeilingCache& ceilings, const StepWatcher& watch) {
  return measure_step(config, ceilings, watch, [&](Session& session, Program& program) {
    Profile profile;
    record_on_ranks(profile, session, program);
    describe_communication(profile, session.record().training_step->parallel);
  });
}

std::optional<Profile> measure_profile(const RunConfig& config, CeilingCache& ceilings, const StepWatcher& watch) {
  Profile profile;
  std::optional<Record> record = measure_step(
      config, ceilings, watch, [&](Session& session, Program& program) { record_on_ranks(profile, session, program); });
  if (!record) return std::nullopt;
  profile.run = std::move(*record);
  profile.run.experiment = Experiment::profile;
  if (profile.run.status == RunStatus::ok && profile.run.device.kind == "null") {
    profile.problem = "the null device runs nothing; bench --device null prints its predictions";
  }
  if (profile.has_kernels()) {
    profile.matmul_flops_per_second = profile.run.training_step->ceiling_flops_per_second;
    profile.copy_bytes_per_second = ceilings.copy(config.device, config.device_options.threads);
  }
  return profile;
}

std::optional<Profile> forecast_profile(const RunConfig& config, const StepWatcher& watch) {
  Profile profile;
  std::optional<Record> record = record_run(describe_run(config, Experiment::profile), [&](Record& run) {
    Session session(config, watch, run);
    const ProgramPlan plan = session.plan();
    std::vector<LaunchForecast> launches;
    const auto [forecast, problem] = forecast_time(plan, config, {}, &launches);
    if (!forecast) {
      throw Error(problem.empty() ? "no time is predicted without a card; name one with --card" : problem,
                  ErrorKind::unsupported);
    }
    profile.captured = config.compile.level == Compile::full;
    profile.capture_note = forecast->warning;
    run.training_step->time_ms.mean = forecast->ms;
    run.training_step->time_ms.min = forecast->low_ms;
    run.training_step->time_ms.max = forecast->high_ms;
    const auto in_ns = [](double ms) { return std::llround(ms * 1e6); };
    for (const LaunchForecast& launch : launches) {
      const Node& node = plan.graph().node(launch.node);
      KernelRecord& kernel = profile.kernels.emplace_back(record_of(plan.graph(), node));
      kernel.name = kernel.op;
      kernel.node = launch.node.id;
      kernel.start_ns = kernel.call_start_ns = in_ns(launch.begin_ms);  // a gap is the host's
      kernel.duration_ns = in_ns(launch.begin_ms + launch.ms) - kernel.start_ns;
      const Cost work = cost(plan.graph(), node);
      kernel.flops = work.flops;
      kernel.bytes = work.bytes;
    }
    profile.steps = {{0, in_ns(forecast->ms)}};
  });
  if (!record) return std::nullopt;
  profile.run = std::move(*record);
  return profile;
}

Record benchmark(const RunConfig& config) {
  CeilingCache ceilings;
  return *measure_step(config, ceilings);  // without a watcher, nothing stops it
}

Profile profile(RunConfig config) {
  constexpr std::int64_t kProfiledSteps = 3;
  if (config.profiled_steps == 0) config.profiled_steps = kProfiledSteps;
  CeilingCache ceilings;
  return *measure_profile(config, ceilings);
}

}  // namespace ridgepoint
