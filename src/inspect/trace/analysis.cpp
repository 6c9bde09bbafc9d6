#include "inspect/trace/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <tuple>

#include "core/stop_regularly.h"
#include "core/text/throw_error.h"
#include "inspect/trace/launches.h"
#include "interchange/trace/trace_collector.h"
#include "predict/cards/datasheet.h"
#include "runtime/device/activity.h"

namespace ridgepoint {
namespace {

// The number behind #, or where there is none the place among the steps.
std::int64_t number_of(const TraceStep& step, std::size_t place) {
  const std::size_t at = step.name.rfind('#');
  auto number = static_cast<std::int64_t>(place);
  if (at != std::string::npos) std::from_chars(step.name.data() + at + 1, step.name.data() + step.name.size(), number);
  return number;
}

// Busy time of events that come in order of their start; within half of all times, so that no difference overflows.
BusyTime from_first() { return {INT64_MIN / 2, INT64_MAX / 2}; }

class TraceAnalysis {
 public:
  TraceAnalysis(Trace trace, const KernelRules& rules, const TraceSelection& selection, const StopPoint& stop_point)
      : trace_(std::move(trace)), selection_(selection), stop_point_(stop_point), contexts_(trace_) {
    for (const std::string& name : trace_.names) {
      classes_.push_back(rules.class_of(name));
      host_calls_.push_back(host_call(name));
    }
  }

  std::vector<TraceLane> lanes() {
    find_devices();
    find_steps();
    std::vector<TraceLane> lanes(std::max<std::size_t>(devices_.size(), 1));
    for (std::size_t device = 0; device < lanes.size(); ++device) lanes[device] = lane(device);
    return lanes;
  }

 private:
  // Tracks with the same process are streams of one device.
  struct Device {
    std::string process;
    std::uint32_t streams = 0;
    std::map<std::string_view, std::int64_t> launches = {};  // by process of the host
    std::vector<std::uint32_t> activities = {};
  };

  void find_devices() {
    constexpr std::uint32_t kNone = UINT32_MAX;
    std::vector<std::uint32_t> device_of_track(trace_.tracks.size(), kNone);
    stream_of_track_.resize(trace_.tracks.size());
    calls_.reserve(trace_.activities.size());
    for (std::uint32_t i = 0; i < trace_.activities.size(); ++i) {
      const TraceEvent& activity = trace_.activities[i];
      std::uint32_t& number = device_of_track[activity.track];
      if (number == kNone) {
        number = device_named(trace_.tracks[activity.track].process);
        stream_of_track_[activity.track] = static_cast<std::uint16_t>(devices_[number].streams++);
      }
      Device& device = devices_[number];
      device.activities.push_back(i);
      calls_.push_back(static_cast<std::uint32_t>(contexts_.call_of(activity).value_or(kNone)));
      if (calls_.back() != kNone) ++device.launches[trace_.tracks[trace_.calls[calls_.back()].track].process];
      stop_regularly(stop_point_, i);
    }
  }

  std::uint32_t device_named(const std::string& process) {
    constexpr std::size_t kMostDevices = 256;
    const auto found = std::ranges::find(devices_, process, &Device::process);
    if (found != devices_.end()) return static_cast<std::uint32_t>(found - devices_.begin());
    if (devices_.size() == kMostDevices)
      throw_error("'{}' has events of more than {} devices", trace_.path, kMostDevices);
    devices_.push_back({.process = process});
    return static_cast<std::uint32_t>(devices_.size() - 1);
  }

  void find_steps() {
    constexpr std::size_t kMostSteps = std::size_t{1} << 18U;
    for (const TraceEvent& mark : trace_.marks)
      if (step_marks_.size() < kMostSteps && is_step(trace_.names[mark.name])) step_marks_.push_back(mark);
  }

  // The process of the host that launches most of a device's kernels; empty where no launch is known.
  static std::string_view host_of(const Device& device) {
    const auto most = std::ranges::max_element(device.launches, {}, [](const auto& item) { return item.second; });
    return most == device.launches.end() ? std::string_view() : most->first;
  }

  std::vector<TraceStep> steps_of(const Device* device) const {
    const std::string_view host = device == nullptr ? std::string_view() : host_of(*device);
    std::vector<TraceStep> steps;
    for (const TraceEvent& mark : step_marks_) {
      if (!host.empty() && trace_.tracks[mark.track].process != host) continue;
      steps.push_back({.name = trace_.names[mark.name], .begin_ns = mark.start_ns, .end_ns = mark.end_ns()});
    }
    return steps;
  }

  // The step in which the host launched an event, or without a launch in which the event began.
  static std::size_t step_at(const std::vector<TraceStep>& steps, std::int64_t at_ns) {
    const auto behind = std::ranges::upper_bound(steps, at_ns, {}, &TraceStep::begin_ns);
    const auto step = static_cast<std::size_t>(behind - steps.begin()) - 1;
    return behind == steps.begin() || steps[step].end_ns <= at_ns ? SIZE_MAX : step;
  }

  void describe(TraceLane& lane) const {
    lane.file = trace_.path;
    lane.format = trace_.format;
    lane.rank = trace_.rank;
    lane.ranks = trace_.ranks;
    lane.base_ns = trace_.base_ns;
    lane.events = trace_.events;
    lane.faults = trace_.faults;
  }

  // "2: rank 1 cuda: NVIDIA H100", as this program names the processes of several ranks in a file.
  static std::optional<std::int64_t> rank_in(std::string_view device) {
    constexpr std::string_view kRank = ": rank ";
    const std::size_t at = device.find(kRank);
    std::int64_t rank = 0;
    if (at == std::string_view::npos) return std::nullopt;
    const char* const begin = device.data() + at + kRank.size();
    return std::from_chars(begin, device.data() + device.size(), rank).ptr != begin ? std::optional(rank)
                                                                                    : std::nullopt;
  }

  std::string name_of(const Device& device) const {
    for (const TraceDevice& known : trace_.devices)
      if (known.id == device.process && !known.name.empty()) return fmt::format("{}: {}", known.id, known.name);
    return device.process;
  }

  std::size_t selected_step(const std::vector<TraceStep>& steps) const {
    if (!selection_.step) return SIZE_MAX;
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      numbers.push_back(number_of(steps[i], i));
      if (numbers.back() == *selection_.step) return i;
    }
    throw_error(ErrorKind::usage, "--step: '{}' has no step {}; {}", trace_.path, *selection_.step,
                numbers.empty() ? "it marks no steps (ProfilerStep#N, which profiler.step() writes)"
                                : fmt::format("its steps are {} to {}", numbers.front(), numbers.back()));
  }

  std::string selection_text(std::string step) const {
    if (!selection_.range_ns) return step;
    constexpr double kNsOfMs = 1e6;
    const auto [begin, end] = *selection_.range_ns;
    return fmt::format("{}{}{} to {} ms", step, step.empty() ? "" : ", ", static_cast<double>(begin) / kNsOfMs,
                       static_cast<double>(end) / kNsOfMs);
  }

  TraceLane lane(std::size_t number) {
    TraceLane lane;
    describe(lane);
    const Device* device = devices_.empty() ? nullptr : &devices_[number];
    lane.steps = steps_of(device);
    const std::size_t only = selected_step(lane.steps);
    lane.selection = selection_text(only == SIZE_MAX ? std::string() : lane.steps[only].name);
    if (device == nullptr) {
      add_sums(lane);
      return lane;
    }
    lane.device = name_of(*device);
    if (const auto rank = rank_in(lane.device)) lane.rank = rank;
    lane.streams = device->streams;
    add_events(lane, *device, only);
    lane.timeline.places = places_;
    add_waits(lane, *device);
    leave_out_empty_steps(lane);
    add_work(lane);
    name_what_no_mark_has(lane.timeline.places);
    lane.idle = idle_time(lane.timeline);
    lane.launches = launch_delay(lane.timeline);
    lane.collectives = communication(lane.timeline);
    lane.path = critical_path(lane.timeline);
    if (lane.steps.empty()) lane.repetition = find_repetition(lane.timeline);
    return lane;
  }

  void add_events(TraceLane& lane, const Device& device, std::size_t only) {
    DeviceTimeline& timeline = lane.timeline;
    const std::int64_t base_ns = trace_.activities[device.activities.front()].start_ns;
    std::vector<BusyTime> busy(lane.steps.size(), from_first());
    std::vector<std::int64_t> stream_end_ns(device.streams, INT64_MIN);
    std::vector<std::uint32_t> names(trace_.names.size(), UINT32_MAX);  // of the lane, by name of the trace
    std::int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    timeline.has_phases = false;
    timeline.events.reserve(device.activities.size());
    activities_of_lane_.reserve(device.activities.size());
    for (const std::uint32_t i : device.activities) {
      const TraceEvent& activity = trace_.activities[i];
      stop_regularly(stop_point_, i);
      DeviceEvent event = event_of(timeline, activity, calls_[i]);
      event.stream = stream_of_track_[activity.track];
      event.group = static_cast<std::uint32_t>(timeline.events.size());
      const std::int64_t launched_ns = calls_[i] == UINT32_MAX ? activity.start_ns : event.call_start_ns;
      const std::size_t step = step_at(lane.steps, launched_ns);
      if ((only != SIZE_MAX && step != only) || !is_in_range(activity.start_ns - base_ns)) continue;
      std::int64_t& end_ns = stream_end_ns[event.stream];
      if (activity.start_ns < end_ns) ++lane.faults[static_cast<std::size_t>(TraceFault::overlaps_on_stream)];
      end_ns = std::max(end_ns, activity.end_ns());
      if (step != SIZE_MAX) {
        ++lane.steps[step].kernels;
        lane.steps[step].kernel_ns += activity.duration_ns;
        lane.steps[step].busy_ns += busy[step].add(activity.start_ns, activity.duration_ns).busy_ns;
        lane.steps[step].by_class_ns[static_cast<std::size_t>(event.kernel_class)] += activity.duration_ns;
      }
      count(lane, activity);
      first_ns = std::min(first_ns, activity.start_ns);
      last_ns = std::max(last_ns, activity.end_ns());
      std::uint32_t& known = names[activity.name];
      if (known == UINT32_MAX) {
        known = static_cast<std::uint32_t>(timeline.names.size());
        timeline.names.push_back(trace_.names[activity.name]);
      }
      event.name = known;
      timeline.events.push_back(event);
      activities_of_lane_.push_back(i);
    }
    if (!timeline.events.empty()) timeline.steps = {{first_ns, last_ns}};
    if (only != SIZE_MAX) lane.steps = {lane.steps[only]};
  }

  // What the host did in each step besides launching.
  void add_waits(TraceLane& lane, const Device& device) const {
    const std::string_view host = host_of(device);
    for (const TraceEvent& call : trace_.calls) {
      if (!host.empty() && trace_.tracks[call.track].process != host) continue;
      const HostCall what = host_calls_[call.name];
      if (what != HostCall::allocate && what != HostCall::synchronize) continue;
      if (what == HostCall::allocate) lane.allocations.push_back({call.start_ns, call.end_ns()});
      const std::size_t step = step_at(lane.steps, call.start_ns);
      if (step == SIZE_MAX) continue;
      TraceStep& in = lane.steps[step];
      (what == HostCall::allocate ? in.allocating_ns : in.waiting_ns) += call.duration_ns;
    }
  }

  // Of a range, the steps without a kernel of it.
  void leave_out_empty_steps(TraceLane& lane) const {
    if (selection_.range_ns) std::erase_if(lane.steps, [](const TraceStep& step) { return step.kernels == 0; });
  }

  // The work of an op counts for its longest kernel, or, if the op is a product, for its longest matmul kernel. A trace
  // of this program has the work of all kernels.
  void add_work(TraceLane& lane) {
    const std::vector<DeviceEvent>& events = lane.timeline.events;
    if (trace_.works.size() == 1 && trace_.notes.size() == 1) return activities_of_lane_.clear();
    std::vector<KernelWork> work(events.size());
    std::map<std::uint32_t, std::size_t> longest;  // event, by op
    bool is_known = false;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::uint32_t activity = activities_of_lane_[i];
      const TraceNote& note = trace_.notes[trace_.activities[activity].note];
      work[i] = {note.flops, note.bytes};
      is_known = is_known || note.flops > 0 || note.bytes > 0;
      const std::uint32_t op = op_of(calls_[activity], events[i]);
      if (op == LaunchContext::kNoOp) continue;
      if (work_of(op).is_product) count_product(lane, work_of(op), longest.contains(op), events[i]);
      std::size_t& best = longest.try_emplace(op, i).first->second;
      if (events[i].duration_ns > events[best].duration_ns) best = i;
    }
    std::vector<std::string_view> dtypes(events.size());
    for (const auto& [op, event] : longest) {
      work[event] = {work_of(op).flops, work_of(op).bytes};
      dtypes[event] = work_of(op).dtype;
    }
    activities_of_lane_.clear();
    if (!is_known && longest.empty()) return;
    lane.timeline.work = std::move(work);
    compare_with_datasheet(lane, dtypes);
  }

  const TraceWork& work_of(std::uint32_t op) const { return trace_.works[trace_.marks[op].note]; }

  std::uint32_t op_of(std::uint32_t call, const DeviceEvent& event) const {
    const std::uint32_t op = call != UINT32_MAX ? contexts_.of_call(call).op : LaunchContext::kNoOp;
    if (op == LaunchContext::kNoOp || !work_of(op).is_product) return op;
    return event.kernel_class == KernelClass::matmul ? op : LaunchContext::kNoOp;
  }

  void count_product(TraceLane& lane, const TraceWork& product, bool is_counted, const DeviceEvent& event) const {
    const std::string_view type = arithmetic_of(product.dtype, lane.timeline.name_of(event));
    if (!lane.products) lane.products = TraceProducts{.dtype = std::string(type), .datasheet_flops_per_second = {}};
    TraceProducts& sum = *lane.products;
    if (sum.dtype != type) sum.dtype.clear();
    if (!is_counted) sum.flops += product.flops;
    sum.time_ns += event.duration_ns;
  }

  // Of a file that has nothing else.
  void add_sums(TraceLane& lane) const {
    lane.timeline.has_phases = false;
    for (const TraceSum& sum : trace_.sums) {
      const auto us = [](double ns) { return ns / 1e3; };
      KernelRow& row = lane.timeline.sums.emplace_back();
      row.name = trace_.names[sum.name];
      row.sum = {sum.calls, sum.total_ns};
      row.kernel_class = classes_[sum.name];
      row.us.mean = us(static_cast<double>(sum.total_ns) / static_cast<double>(sum.calls));
      row.us.median = us(sum.median_ns);
      row.us.min = us(sum.least_ns);
      row.us.max = us(sum.most_ns);
      row.us.std = us(sum.deviation_ns);
      lane.kernels.add(row.sum);
    }
  }

  // `dtypes`: by event, of what is multiplied.
  static void compare_with_datasheet(TraceLane& lane, const std::vector<std::string_view>& dtypes) {
    const Datasheet* sheet = find_datasheet(lane.card_name());
    if (sheet == nullptr) return;
    if (lane.products)
      lane.products->datasheet_flops_per_second = datasheet_flops_per_second(*sheet, lane.products->dtype);
    RooflineOfTrace roofline(*sheet);
    const DeviceTimeline& timeline = lane.timeline;
    for (std::size_t i = 0; i < timeline.events.size(); ++i) {
      const DeviceEvent& event = timeline.events[i];
      roofline.add(event.kernel_class, timeline.name_of(event), sum_of(timeline, i), dtypes[i]);
    }
    lane.roofline = roofline.finish();
  }

  // Beside modules, what is in none is a module of its own.
  static void name_what_no_mark_has(std::vector<KernelPlace>& places) {
    if (std::ranges::all_of(places, &std::string::empty, &KernelPlace::scope)) return;
    for (KernelPlace& place : places)
      if (place.scope.empty()) place.scope = "(in no mark)";
  }

  bool is_in_range(std::int64_t since_first_ns) const {
    return !selection_.range_ns ||
           (since_first_ns >= selection_.range_ns->first && since_first_ns < selection_.range_ns->second);
  }

  static void count(TraceLane& lane, const TraceEvent& activity) {
    if (activity.kind == ActivityKind::kernel) lane.kernels.add(KernelSum{1, activity.duration_ns});
    if (activity.kind == ActivityKind::copy) ++lane.copies;
    if (activity.kind == ActivityKind::fill) ++lane.fills;
  }

  DeviceEvent event_of(DeviceTimeline& timeline, const TraceEvent& activity, std::uint32_t call) {
    DeviceEvent event{
        .start_ns = activity.start_ns,
        .duration_ns = activity.duration_ns,
        .call_start_ns = INT64_MAX,
        .name = activity.name,
        .kind = activity.kind,
        .kernel_class = activity.kind == ActivityKind::kernel ? classes_[activity.name] : KernelClass::memory_movement,
        .late_because = IdleCause::launch_unknown};
    LaunchContext context;
    if (call != UINT32_MAX) {
      context = contexts_.of_call(call);
      event.call_start_ns = trace_.calls[call].start_ns;
      event.late_because = context.late_because;
    }
    if (activity.note != 0) apply_note(trace_.notes[activity.note], event, context);
    if (context.phase != LaunchContext::kNoPhase) {
      event.phase = static_cast<ProfilePhase>(context.phase);
      timeline.has_phases = timeline.has_phases || event.phase != ProfilePhase::forward;
    }
    if (activity.note == 0) event.kernel_class = class_in_phase(event.kernel_class, context.phase);
    event.place = place_of(activity.note, event.kernel_class, context.scope);
    return event;
  }

  // As in profiles: simple kernels have the class of their phase.
  static KernelClass class_in_phase(KernelClass of_name, std::uint8_t phase) {
    if (of_name != KernelClass::elementwise) return of_name;
    if (phase == static_cast<std::uint8_t>(ProfilePhase::optimizer)) return KernelClass::optimizer;
    return phase == static_cast<std::uint8_t>(ProfilePhase::loss) ? KernelClass::loss : of_name;
  }

  // A trace of this program says itself what a kernel is for.
  static void apply_note(const TraceNote& note, DeviceEvent& event, LaunchContext& context) {
    if (const auto known = kernel_class_from_name(note.kernel_class)) event.kernel_class = *known;
    for (const ProfilePhase phase : kProfilePhases)
      if (name(phase) == note.phase) context.phase = static_cast<std::uint8_t>(phase);
  }

  // The module, and in it the op; the class of a kernel, where a trace says no op.
  std::uint32_t place_of(std::uint32_t note, KernelClass kernel_class, std::uint32_t scope) {
    const auto [found, is_new] =
        place_numbers_.try_emplace(std::tuple(note, scope, kernel_class), static_cast<std::uint32_t>(places_.size()));
    if (!is_new) return found->second;
    const TraceNote& own = trace_.notes[note];
    places_.push_back({own.op.empty() ? std::string(name(kernel_class)) : own.op,
                       own.scope.empty() ? contexts_.scopes()[scope] : own.scope});
    return found->second;
  }

  Trace trace_;
  const TraceSelection& selection_;
  const StopPoint& stop_point_;
  LaunchContexts contexts_;
  std::vector<std::uint32_t> activities_of_lane_;  // by event of the lane that is being made
  std::vector<KernelClass> classes_;               // by name
  std::vector<HostCall> host_calls_;               // by name
  std::vector<std::uint32_t> calls_;               // by activity; UINT32_MAX: none
  std::vector<Device> devices_;
  std::vector<std::uint16_t> stream_of_track_;
  std::vector<TraceEvent> step_marks_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, KernelClass>, std::uint32_t> place_numbers_;
  std::vector<KernelPlace> places_;
};

// A stretch at the end that consists of one period again and again.
struct Period {
  std::size_t length = 0, covered = 0;
};

// The shortest period whose stretch is at least half of the sequence, and is at least two of it; a length of 0 where
// there is none. From the end backwards, because a first step often differs. By the Z function: how far the sequence
// agrees with itself from each place on.
Period shortest_period(const std::vector<std::uint32_t>& reversed) {
  const std::size_t size = reversed.size();
  std::vector<std::size_t> same(size);
  for (std::size_t i = 1, left = 0, right = 0; i < size; ++i) {
    if (i < right) same[i] = std::min(right - i, same[i - left]);
    while (i + same[i] < size && reversed[same[i]] == reversed[i + same[i]]) ++same[i];
    if (i + same[i] > right) std::tie(left, right) = std::pair(i, i + same[i]);
    const std::size_t covered = i + same[i];
    if (same[i] >= i && covered >= size / 2) return {i, covered};
  }
  return {};
}

}  // namespace

std::vector<TraceLane> analyse_trace(Trace trace, const KernelRules& rules, const TraceSelection& selection,
                                     const StopPoint& stop_point) {
  return TraceAnalysis(std::move(trace), rules, selection, stop_point).lanes();
}

std::optional<KernelRepetition> find_repetition(const DeviceTimeline& timeline) {
  std::map<std::uint16_t, std::int64_t> streams;
  for (const DeviceEvent& event : timeline.events) ++streams[event.stream];
  if (streams.empty()) return std::nullopt;
  const std::uint16_t busiest =
      std::ranges::max_element(streams, {}, [](const auto& item) { return item.second; })->first;
  std::vector<std::uint32_t> names;
  std::vector<std::int64_t> begins_ns;
  for (auto event = timeline.events.rbegin(); event != timeline.events.rend(); ++event) {
    if (event->stream != busiest) continue;
    names.push_back(event->name);
    begins_ns.push_back(event->start_ns);
  }
  const auto [length, covered] = shortest_period(names);
  if (length == 0) return std::nullopt;
  const std::size_t times = covered / length;
  const auto periods = static_cast<double>(times - 1);
  return KernelRepetition{.times = static_cast<std::int64_t>(times),
                          .kernels = static_cast<std::int64_t>(length),
                          .mean_ns = static_cast<double>(begins_ns[0] - begins_ns[(times - 1) * length]) / periods};
}

std::vector<FirstStepRow> first_against_later(const std::vector<TraceStep>& steps) {
  std::vector<FirstStepRow> rows;
  if (steps.size() < 2) return rows;
  const auto add = [&](std::string_view what, const auto& ns_of) {
    std::vector<std::int64_t> later;
    for (std::size_t i = 1; i < steps.size(); ++i) later.push_back(ns_of(steps[i]));
    std::ranges::sort(later);
    const std::size_t middle = later.size() / 2;
    const double median_ns =
        (static_cast<double>(later[(later.size() - 1) / 2]) + static_cast<double>(later[middle])) / 2;
    const auto first_ns = static_cast<double>(ns_of(steps.front()));
    if (first_ns == 0 && median_ns == 0) return;
    rows.push_back({std::string(what), first_ns / 1e6, median_ns / 1e6});
  };
  add("the step, on the host", [](const TraceStep& step) { return step.wall_ns(); });
  add("the host in calls for memory", [](const TraceStep& step) { return step.allocating_ns; });
  add("the host in synchronisation", [](const TraceStep& step) { return step.waiting_ns; });
  add("the device busy", [](const TraceStep& step) { return step.busy_ns; });
  for (std::size_t i = 0; i < kKernelClasses.size(); ++i)
    add(name(kKernelClasses[i]), [i](const TraceStep& step) { return step.by_class_ns[i]; });
  return rows;
}

LaunchDelay launch_delay(const DeviceTimeline& timeline) {
  std::vector<std::int64_t> delays_ns, launches_ns, begins_ns;
  for (const DeviceEvent& event : timeline.events) {
    if (event.call_start_ns == INT64_MAX) continue;
    delays_ns.push_back(std::max<std::int64_t>(event.start_ns - event.call_start_ns, 0));
    launches_ns.push_back(event.call_start_ns);
    begins_ns.push_back(event.start_ns);
  }
  LaunchDelay found{.launches = static_cast<std::int64_t>(delays_ns.size())};
  if (delays_ns.empty()) return found;
  std::ranges::sort(delays_ns);
  std::ranges::sort(launches_ns);
  found.median_ns = delays_ns[delays_ns.size() / 2];
  found.p95_ns = delays_ns[delays_ns.size() * 95 / 100];
  found.most_ns = delays_ns.back();
  std::int64_t sum = 0;
  for (std::size_t launched = 0, begun = 0; launched < launches_ns.size(); ++launched) {
    while (begun < begins_ns.size() && begins_ns[begun] <= launches_ns[launched]) ++begun;
    const auto queue = static_cast<std::int64_t>(launched - std::min(begun, launched));
    sum += queue;
    found.longest_queue = std::max(found.longest_queue, queue);
  }
  found.mean_queue = static_cast<double>(sum) / static_cast<double>(launches_ns.size());
  return found;
}

}  // namespace ridgepoint
