#include "interchange/trace/trace_collector.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "core/text/json.h"
#include "core/text/text.h"
#include "interchange/trace/json_cursor.h"
#include "interchange/trace/recorded_work.h"

namespace ridgepoint {
namespace {

enum class Role : std::uint8_t { other, kernel, copy, fill, call, annotation, op, module };

// The categories of PyTorch's profiler (old forms begin with capitals).
struct Category {
  std::string_view name;
  Role role;
};
constexpr std::array kCategories = {
    Category{"cpu_op", Role::op},         Category{"kernel", Role::kernel},
    Category{"cuda_runtime", Role::call}, Category{"python_function", Role::module},
    Category{"cuda_driver", Role::call},  Category{"user_annotation", Role::annotation},
    Category{"gpu_memcpy", Role::copy},   Category{"gpu_memset", Role::fill},
    Category{"hip_runtime", Role::call},  Category{"hip_driver", Role::call},
    Category{"xpu_runtime", Role::call},  Category{"Operator", Role::op},
    Category{"Kernel", Role::kernel},     Category{"Memcpy", Role::copy},
    Category{"Memset", Role::fill},       Category{"Runtime", Role::call},
};

// Compared by the first byte and the length before the others, because every event is asked for.
Role role_of(std::string_view category) {
  for (const Category& known : kCategories) {
    const bool may_be = known.name.size() == category.size() && known.name.front() == category.front();
    if (may_be && known.name == category) return known.role;
  }
  return Role::other;
}

// Ops that are kept, because they say what a kernel is for: the nodes of backward, and in old forms annotations.
constexpr std::array<std::string_view, 5> kMarkingOps = {"autograd::engine::evaluate_function", "ProfilerStep#",
                                                         "Optimizer.", "enumerate(DataLoader)", "## "};
// Old forms have the nodes of backward without the engine's call around each.
bool is_node_without_engine(const EventText& op) { return op.category == "Operator" && is_backward_node(op.name); }
constexpr std::string_view kModule = "nn.Module: ";
// Leads from an op of forward to its node of backward.
constexpr std::string_view kFlow = "fwdbwd";

struct NamedCall {
  std::string_view part;
  HostCall call;
};
// The first part that a name has, in the API of CUDA and of HIP.
constexpr std::array kCalls = {
    NamedCall{"Launch", HostCall::launch},       NamedCall{"Memcpy", HostCall::copy},
    NamedCall{"Memset", HostCall::launch},       NamedCall{"Synchronize", HostCall::synchronize},
    NamedCall{"Malloc", HostCall::allocate},     NamedCall{"cudaFree", HostCall::allocate},
    NamedCall{"hipFree", HostCall::allocate},    NamedCall{"HostAlloc", HostCall::allocate},
    NamedCall{"MemCreate", HostCall::allocate},  NamedCall{"MemMap", HostCall::allocate},
    NamedCall{"MemRelease", HostCall::allocate}, NamedCall{"MemUnmap", HostCall::allocate},
};

constexpr std::size_t kMostDevices = 1024;

constexpr std::int64_t kMostTimeNs = INT64_MAX / 4;  // so that sums of times fit, too

constexpr std::int64_t kNsPerUs = 1000;
// A time of this many microseconds lies in the year 5138, so the unit is nanoseconds.
constexpr std::uint64_t kLeastNanoseconds = 100'000'000'000'000'000;

struct Time {
  std::int64_t ns = 0;
  bool is_number = false;
  bool is_beyond = false;  // 63 bits
};

Time time_of_real(const std::string& text, std::int64_t unit_ns) {
  char* end = nullptr;
  const double ns = std::strtod(text.c_str(), &end) * static_cast<double>(unit_ns);
  const bool is_number = end != text.c_str() && std::isfinite(ns);
  const bool is_beyond = is_number && std::abs(ns) > static_cast<double>(kMostTimeNs);
  return {is_number && !is_beyond ? std::llround(ns) : 0, is_number, is_beyond};
}

// Decimal digits with a fraction, exactly to the nanosecond. `unit_ns` becomes 1 for a number that can only be
// nanoseconds.
Time time_of(std::string_view text, std::int64_t& unit_ns) {
  const bool is_negative = text.starts_with('-');
  const char* at = text.data() + (is_negative ? 1 : 0);
  const char* const end = text.data() + text.size();
  std::uint64_t whole = 0;
  const auto [behind, problem] = std::from_chars(at, end, whole);
  if (problem == std::errc::result_out_of_range) return {0, true, true};
  if (behind == at) return {};
  if (whole >= kLeastNanoseconds) unit_ns = 1;
  std::uint64_t fraction = 0;
  at = behind;
  if (at < end && *at == '.') {
    int digits = 0;
    for (++at; at < end && *at >= '0' && *at <= '9'; ++at, ++digits) {
      if (digits < 3) fraction = fraction * 10 + static_cast<std::uint64_t>(*at - '0');
      if (digits == 3 && *at >= '5') ++fraction;
    }
    for (; digits < 3; ++digits) fraction *= 10;
  }
  if (at < end) return *at == 'e' || *at == 'E' ? time_of_real(std::string(text), unit_ns) : Time{};
  const auto unit = static_cast<std::uint64_t>(unit_ns);
  if (whole > static_cast<std::uint64_t>(kMostTimeNs) / unit) return {0, true, true};
  const auto ns = static_cast<std::int64_t>(whole * unit + (unit == 1 ? 0 : fraction));
  return {is_negative ? -ns : ns, true, false};
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() ? number : 0;
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::int64_t count_of(std::string_view number) { return std::max<std::int64_t>(integer_of(number).value_or(0), 0); }

// What a string of JSON says; as it stands where its escapes are wrong.
std::string unescaped(std::string_view text) {
  if (text.find('\\') == std::string_view::npos) return valid_utf8(text);
  try {
    return parse_json('"' + valid_utf8(text) + '"').get<std::string>();
  } catch (const Error&) {
    return valid_utf8(text);
  }
}

}  // namespace

HostCall host_call(std::string_view name) {
  for (const NamedCall& known : kCalls)
    if (name.find(known.part) != std::string_view::npos) return known.call;
  return HostCall::other;
}

bool is_backward_node(std::string_view op) {
  if (op.starts_with("torch::autograd::")) return true;
  while (!op.empty() && op.back() >= '0' && op.back() <= '9') op.remove_suffix(1);
  return op.ends_with("Backward") && op.find_first_of(": ") == std::string_view::npos;
}

std::uint32_t TraceCollector::Numbers::number(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  constexpr std::size_t kMostBytesOfOne = 16384;
  if (text.size() > kMostBytesOfOne) return number(text.substr(0, kMostBytesOfOne));
  constexpr std::string_view kBeyond = "(names beyond those that are kept)";
  if (bytes_ + text.size() > most_bytes_ && text != kBeyond) return number(kBeyond);
  bytes_ += text.size() + sizeof(std::string);
  const std::string& kept = texts_.emplace_back(text);
  return numbers_.emplace(kept, static_cast<std::uint32_t>(texts_.size() - 1)).first->second;
}

TraceCollector::TraceCollector() {
  notes_.number("");
  trace_.notes.emplace_back();
  works_.number("");
  trace_.works.emplace_back();
}

std::uint32_t TraceCollector::track(std::string_view process, std::string_view thread) {
  if (last_track_.size() == process.size() + 1 + thread.size() && last_track_.starts_with(process) &&
      last_track_[process.size()] == '\n' && last_track_.ends_with(thread))
    return last_track_number_;
  std::string key(process);
  key += '\n';
  key += thread;
  if (tracks_.size() >= kMostTracks) key = "\n";
  last_track_number_ = tracks_.number(key);
  last_track_ = std::move(key);
  if (last_track_number_ == trace_.tracks.size()) trace_.tracks.push_back({unescaped(process), unescaped(thread)});
  return last_track_number_;
}

bool TraceCollector::read_times(const EventText& text, TraceEvent& event) {
  std::int64_t unit_ns = kNsPerUs;
  const Time start = time_of(text.time, unit_ns);
  const Time duration = text.duration.empty() ? Time{0, true, false} : time_of(text.duration, unit_ns);
  const auto refuse = [&](TraceFault why) {
    ++trace_.fault(why);
    return false;
  };
  if (!start.is_number || !duration.is_number) return refuse(TraceFault::no_time);
  if (start.is_beyond || duration.is_beyond) return refuse(TraceFault::beyond_63_bits);
  if (duration.ns < 0) return refuse(TraceFault::negative_duration);
  if (!fits(duration.ns)) return refuse(TraceFault::beyond_63_bits);
  event.start_ns = start.ns;
  event.duration_ns = duration.ns;
  return true;
}

void TraceCollector::add_device_event(const EventText& text, ActivityKind kind) {
  TraceEvent event{.kind = kind};
  if (!read_times(text, event)) return;
  std::string_view stream = text.thread, op, scope, phase, kernel_class, flops, bytes;
  each_member(text.arguments, [&](std::string_view key, std::string_view value) {
    if (key == "correlation") event.correlation = number_of(value);
    if (key == "stream") stream = value;
    if (key == "op") op = value;
    if (key == "scope") scope = value;
    if (key == "phase") phase = value;
    if (key == "class") kernel_class = value;
    if (key == "flops") flops = value;
    if (key == "bytes") bytes = value;
  });
  event.name = name(text.name);
  event.track = track(text.process, stream);
  if (!kernel_class.empty()) {
    if (!has_room_for(count_of(flops), count_of(bytes))) flops = bytes = {};
    key_.clear();
    for (const std::string_view part : {op, scope, phase, kernel_class, flops, bytes}) key_.append(part).append("\n");
    event.note = notes_.number(key_);
    if (event.note == trace_.notes.size())
      trace_.notes.push_back({unescaped(op), unescaped(scope), unescaped(phase), unescaped(kernel_class),
                              count_of(flops), count_of(bytes)});
  }
  add_activity(event);
}

void TraceCollector::add_host_call(const EventText& text) {
  const std::uint32_t number = name(text.name);
  while (calls_.size() < names_.size()) calls_.push_back(host_call(names_.texts()[calls_.size()]));
  if (calls_[number] == HostCall::other) return;
  TraceEvent event{.name = number};
  if (!read_times(text, event)) return;
  each_member(text.arguments, [&](std::string_view key, std::string_view value) {
    if (key == "correlation") event.correlation = number_of(value);
  });
  event.track = track(text.process, text.thread);
  add_call(event);
}

// The number of the work of an op; 0 where it is not known.
std::uint32_t TraceCollector::work_of(const EventText& text) {
  if (!may_have_work(text.name)) return 0;
  RecordedInputs inputs;
  each_member(text.arguments, [&](std::string_view key, std::string_view value) {
    if (key == "Input Dims" || key == "Input dims") inputs.dims = value;
    if (key == "Input type") inputs.types = value;
    if (key == "Concrete Inputs") inputs.concrete = value;
  });
  // Shapes repeat from step to step, so each text of them is read once.
  key_.assign(text.name).append("\n").append(inputs.dims).append(inputs.types);
  if (text.name.find("attention") != std::string_view::npos) key_.append(inputs.concrete);
  const std::uint32_t number = works_.number(key_);
  const bool is_kept = works_.texts()[number] == key_;
  if (number == trace_.works.size())
    trace_.works.push_back(is_kept ? work_of_op(text.name, inputs).value_or(TraceWork{}) : TraceWork{});
  const TraceWork& work = trace_.works[number];
  const bool is_known = is_kept && work.flops + work.bytes > 0;
  return is_known && has_room_for(work.flops, work.bytes) ? number : 0;
}

void TraceCollector::add_mark_of(const EventText& text, std::uint32_t work) {
  TraceEvent event{.note = work};
  if (!read_times(text, event)) return;
  event.name = name(text.name);
  event.track = track(text.process, text.thread);
  add_mark(event);
}

void TraceCollector::add_flow_of(const EventText& text) {
  TraceEvent event{.correlation = number_of(text.id)};
  if (event.correlation == 0 || !read_times(text, event)) return;
  event.name = name(text.name);
  event.track = track(text.process, text.thread);
  add_flow(event, text.phase == "f");
}

void TraceCollector::event(const EventText& text) {
  if (text.phase.empty()) return;
  ++trace_.events;
  if (text.phase != "X") {
    if (text.phase == "M" && is_own_ && text.name == "process_name") name_process(text);
    if (text.phase == "B") ++trace_.fault(TraceFault::begin_without_end);
    if ((text.phase == "s" || text.phase == "f") && text.category == kFlow) add_flow_of(text);
    return;
  }
  const auto is_marking = [&](std::string_view prefix) { return text.name.starts_with(prefix); };
  switch (role_of(text.category)) {
    case Role::other: return;
    case Role::kernel: return add_device_event(text, ActivityKind::kernel);
    case Role::copy: return add_device_event(text, ActivityKind::copy);
    case Role::fill: return add_device_event(text, ActivityKind::fill);
    case Role::call: return add_host_call(text);
    case Role::annotation: return add_mark_of(text);
    case Role::op:
      if (const std::uint32_t work = work_of(text);
          work != 0 || std::ranges::any_of(kMarkingOps, is_marking) || is_node_without_engine(text))
        add_mark_of(text, work);
      return;
    case Role::module:
      if (is_marking(kModule)) add_mark_of(text);
      return;
  }
}

void TraceCollector::name_process(const EventText& text) {
  if (trace_.devices.size() >= kMostDevices) return;
  TraceDevice& device = trace_.devices.emplace_back();
  device.id = text.process;
  each_member(text.arguments, [&](std::string_view key, std::string_view value) {
    if (key == "name") device.name = unescaped(value);
  });
}

void TraceCollector::add_devices(std::string_view list) {
  JsonCursor cursor(list);
  std::string_view device;
  if (cursor.expect('[') != Scan::ok) return;
  while (cursor.peek() == '{' && cursor.value(device) == Scan::ok && trace_.devices.size() < kMostDevices) {
    TraceDevice& found = trace_.devices.emplace_back();
    each_member(device, [&](std::string_view key, std::string_view value) {
      if (key == "id") found.id = value;
      if (key == "name") found.name = unescaped(value);
    });
    if (cursor.expect(',') != Scan::ok) return;
  }
}

void TraceCollector::member(std::string_view key, std::string_view value) {
  if (key == "deviceProperties" || key == "computeProperties") add_devices(value);
  if (key == "otherData") is_own_ = value.find(R"("program":"ridgepoint)") != std::string_view::npos;
  if (key == "baseTimeNanoseconds") trace_.base_ns = integer_of(value);
  if (key != "distributedInfo") return;
  each_member(value, [&](std::string_view name, std::string_view number) {
    if (name == "rank") trace_.rank = integer_of(number);
    if (name == "world_size") trace_.ranks = integer_of(number);
  });
}

// In a trace whose clock counts from another time, 0 is a time that was never set.
void TraceCollector::leave_out_times_of_zero() {
  constexpr std::int64_t kLongNs = 3'600'000'000'000;
  std::int64_t earliest_ns = INT64_MAX;
  const auto lists = all_lists();
  for (const std::vector<TraceEvent>* events : lists) {
    for (const TraceEvent& event : *events)
      if (event.start_ns > 0) earliest_ns = std::min(earliest_ns, event.start_ns);
  }
  if (earliest_ns == INT64_MAX || earliest_ns < kLongNs) return;
  for (std::vector<TraceEvent>* events : lists)
    trace_.fault(TraceFault::no_time) +=
        std::erase_if(*events, [](const TraceEvent& event) { return event.start_ns <= 0; });
}

// Old forms have times since 1970 themselves, which the time 0 of such a file is then.
void TraceCollector::settle_base() {
  constexpr std::int64_t kYear2001 = 1'000'000'000'000'000'000;
  for (const std::vector<TraceEvent>* events : all_lists())
    if (!events->empty() && events->front().start_ns >= kYear2001) trace_.base_ns = 0;
  if (trace_.base_ns && *trace_.base_ns != 0 && (*trace_.base_ns < kYear2001 || *trace_.base_ns > kMostTimeNs))
    trace_.base_ns.reset();
}

Trace TraceCollector::finish() {
  leave_out_times_of_zero();
  for (std::vector<TraceEvent>* events : all_lists()) {
    std::ranges::sort(*events, {}, [](const TraceEvent& event) {
      return std::tuple(event.start_ns, -event.duration_ns, event.track, event.name, event.correlation);
    });
  }
  settle_base();
  trace_.names.reserve(names_.size());
  for (const std::string& text : names_.texts()) trace_.names.push_back(unescaped(text));
  return std::move(trace_);
}

}  // namespace ridgepoint
