#include "inspect/trace/launches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/text/text.h"
#include "inspect/profile/views.h"
#include "inspect/trace/kernel_rules.h"
#include "interchange/trace/trace_collector.h"

namespace ridgepoint {
namespace {

constexpr std::string_view kStep = "ProfilerStep";
constexpr std::string_view kModule = "nn.Module: ";

// What a mark of some name means.
struct MarkMeaning {
  std::uint8_t phase = LaunchContext::kNoPhase;
  bool loads_data = false;
  std::string level;  // of a module's path; empty: none
};

// The number behind the class of a module tells instances apart: Linear of Linear_3.
std::string_view without_number(std::string_view module) {
  const std::size_t at = module.rfind('_');
  return at != std::string_view::npos && at > 0 && is_digits(module.substr(at + 1)) ? module.substr(0, at) : module;
}

MarkMeaning meaning_of(std::string_view name) {
  MarkMeaning meaning;
  if (is_step(name) || name.starts_with("aten::")) return meaning;
  const std::optional<ProfilePhase> phase = phase_of_mark(name);
  if (phase) meaning.phase = static_cast<std::uint8_t>(*phase);
  meaning.loads_data = name.starts_with("enumerate(DataLoader)");
  const bool is_of_library = name.starts_with("autograd::") || name.starts_with("nccl:") ||
                             name.starts_with("Optimizer.") || is_backward_node(name) || meaning.loads_data;
  if (is_of_library) return meaning;
  meaning.level = name.starts_with(kModule) ? without_number(name.substr(kModule.size())) : trimmed(name);
  std::ranges::replace(meaning.level, '.', '_');  // a dot would be another level
  return meaning;
}

// Numbers paths of modules: each is a level within another path.
class ScopeNumbers {
 public:
  explicit ScopeNumbers(std::vector<std::string>& scopes) : scopes_(scopes) { scopes_.emplace_back(); }

  std::uint32_t within(std::uint32_t parent, const std::string& level) {
    constexpr std::size_t kMostScopes = std::size_t{1} << 18U;
    constexpr std::size_t kMostBytes = 1024;
    if (level.empty() || scopes_.size() >= kMostScopes || scopes_[parent].size() > kMostBytes) return parent;
    const auto [found, is_new] =
        numbers_.try_emplace(std::pair(parent, level), static_cast<std::uint32_t>(scopes_.size()));
    if (is_new) scopes_.push_back(scopes_[parent].empty() ? level : scopes_[parent] + '.' + level);
    return found->second;
  }

 private:
  std::vector<std::string>& scopes_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> numbers_;
};

// The time that the host spent waiting since its last launch, by what it waited for.
class Waits {
 public:
  void add(IdleCause cause, std::int64_t ns) { sums_[static_cast<std::size_t>(cause)] += ns; }

  // At a launch: the activity that took at least half of the time since the last launch kept the host.
  IdleCause ends_at(std::int64_t start_ns) {
    const auto longest = std::ranges::max_element(sums_);
    const auto cause = static_cast<IdleCause>(longest - sums_.begin());
    const bool kept = *longest > 0 && last_ns_ != INT64_MIN && *longest >= (start_ns - last_ns_) / 2;
    sums_.fill(0);
    last_ns_ = start_ns;
    return kept ? cause : IdleCause::host_late;
  }

 private:
  std::array<std::int64_t, kIdleCauses.size()> sums_{};
  std::int64_t last_ns_ = INT64_MIN;
};

// Indices of events, grouped by track, within a track in order of start.
std::vector<std::uint32_t> by_track(const std::vector<TraceEvent>& events) {
  std::vector<std::uint32_t> order(events.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return events[i].track; });
  return order;
}

// Walks the calls and marks of one thread after another.
class ThreadWalk {
 public:
  ThreadWalk(const Trace& trace, std::vector<LaunchContext>& contexts, std::vector<std::string>& scopes)
      : trace_(trace), contexts_(contexts), scopes_(scopes), meanings_(trace.names.size()) {
    for (const std::string& name : trace.names) calls_.push_back(host_call(name));
  }

  void run() {
    walk(trace_.flow_begins, [this](std::uint32_t, const TraceEvent& flow) {
      if (!open_.empty() && open_.back().scope != 0) scope_of_flow_[flow.correlation] = open_.back().scope;
    });
    const std::vector<std::uint32_t> ends = by_track(trace_.flow_ends);
    std::size_t end = 0;
    walk(trace_.calls, [&](std::uint32_t index, const TraceEvent& call) {
      for (; end < ends.size() && is_before(trace_.flow_ends[ends[end]], call); ++end) {
        const TraceEvent& flow = trace_.flow_ends[ends[end]];
        if (flow.track == call.track) enter_module_of(flow);
      }
      visit(index, call);
    });
  }

 private:
  struct OpenMark {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::uint8_t phase = LaunchContext::kNoPhase;
    std::uint32_t scope = 0;
    std::uint32_t op = LaunchContext::kNoOp;
  };

  static bool is_before(const TraceEvent& a, const TraceEvent& b) {
    return std::pair(a.track, a.start_ns) <= std::pair(b.track, b.start_ns);
  }

  // Calls `visit` for each of `events` on each thread, with the marks open that it lies in.
  template <typename Visit>
  void walk(const std::vector<TraceEvent>& events, Visit visit) {
    const std::vector<std::uint32_t> order = by_track(events), marks = by_track(trace_.marks);
    std::size_t mark = 0;
    std::uint32_t track = UINT32_MAX;
    for (const std::uint32_t index : order) {
      const TraceEvent& event = events[index];
      if (event.track != track) {
        track = event.track;
        open_.clear();
        waits_ = {};
        while (mark < marks.size() && trace_.marks[marks[mark]].track < track) ++mark;
      }
      for (; mark < marks.size() && is_before(trace_.marks[marks[mark]], event); ++mark) open(marks[mark]);
      close(event.start_ns);
      visit(index, event);
    }
  }

  // A node of backward is in the module of its op of forward.
  void enter_module_of(const TraceEvent& flow) {
    if (open_.empty() || open_.back().begin_ns > flow.start_ns) return;
    const auto found = scope_of_flow_.find(flow.correlation);
    if (found != scope_of_flow_.end()) open_.back().scope = found->second;
  }

  const MarkMeaning& meaning(std::uint32_t name) {
    std::optional<MarkMeaning>& known = meanings_[name];
    if (!known) known = meaning_of(trace_.names[name]);
    return *known;
  }

  void open(std::uint32_t index) {
    const TraceEvent& mark = trace_.marks[index];
    close(mark.start_ns);
    const MarkMeaning& what = meaning(mark.name);
    if (what.loads_data) waits_.add(IdleCause::data_loading, mark.duration_ns);
    OpenMark inner = open_.empty() ? OpenMark{} : open_.back();
    inner.begin_ns = mark.start_ns;
    inner.end_ns = mark.end_ns();
    if (what.phase != LaunchContext::kNoPhase) inner.phase = what.phase;
    if (mark.note != 0) inner.op = index;
    inner.scope = scopes_.within(inner.scope, what.level);
    open_.push_back(inner);
  }

  void close(std::int64_t at_ns) {
    while (!open_.empty() && open_.back().end_ns <= at_ns) open_.pop_back();
  }

  void visit(std::uint32_t index, const TraceEvent& call) {
    const HostCall what = calls_[call.name];
    if (what == HostCall::synchronize) return waits_.add(IdleCause::synchronisation, call.duration_ns);
    if (what == HostCall::allocate) return waits_.add(IdleCause::allocator, call.duration_ns);
    LaunchContext& context = contexts_[index];
    if (!open_.empty()) {
      const OpenMark& innermost = open_.back();
      context = {.scope = innermost.scope, .op = innermost.op, .phase = innermost.phase};
    }
    context.late_because = waits_.ends_at(call.start_ns);
    if (what == HostCall::copy) waits_.add(IdleCause::copies, call.duration_ns);
  }

  const Trace& trace_;
  std::vector<LaunchContext>& contexts_;
  ScopeNumbers scopes_;
  std::vector<std::optional<MarkMeaning>> meanings_;                // by name
  std::vector<HostCall> calls_;                                     // by name
  std::unordered_map<std::uint64_t, std::uint32_t> scope_of_flow_;  // by the number of the flow
  std::vector<OpenMark> open_;
  Waits waits_;
};

}  // namespace

bool is_step(std::string_view mark) { return mark.starts_with(kStep); }

LaunchContexts::LaunchContexts(const Trace& trace) : trace_(trace), contexts_(trace.calls.size()) {
  ThreadWalk(trace, contexts_, scopes_).run();
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i)
    if (trace.calls[i].correlation != 0) by_correlation_.push_back(i);
  std::ranges::sort(by_correlation_, {}, [&](std::uint32_t i) { return std::pair(trace.calls[i].correlation, i); });
}

std::optional<std::size_t> LaunchContexts::call_of(const TraceEvent& activity) const {
  if (activity.correlation == 0) return std::nullopt;
  const auto of = [&](std::uint32_t i) { return std::pair(trace_.calls[i].correlation, trace_.calls[i].start_ns); };
  const auto behind =
      std::ranges::upper_bound(by_correlation_, std::pair(activity.correlation, activity.start_ns), {}, of);
  if (behind != by_correlation_.begin() && trace_.calls[*(behind - 1)].correlation == activity.correlation)
    return *(behind - 1);
  // The clocks of host and device may differ by a few microseconds.
  if (behind != by_correlation_.end() && trace_.calls[*behind].correlation == activity.correlation) return *behind;
  return std::nullopt;
}

}  // namespace ridgepoint
