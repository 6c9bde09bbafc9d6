#include "inspect/memory/history.h"

#include <memory>
#include <utility>

#include "ridgepoint/error.h"
#include "runtime/device/activity.h"

namespace ridgepoint {

void MemoryLevel::apply(const MemoryEvent& event) {
  std::size_t& category_bytes = by_category[static_cast<std::size_t>(event.category)];
  switch (event.kind) {
    case MemoryEventKind::alloc:
      allocated_bytes += event.bytes;
      requested_bytes += event.requested_bytes;
      category_bytes += event.bytes;
      break;
    case MemoryEventKind::free:
      allocated_bytes -= event.bytes;
      requested_bytes -= event.requested_bytes;
      category_bytes -= event.bytes;
      break;
    case MemoryEventKind::segment_alloc:
      reserved_bytes += event.bytes;
      break;
    case MemoryEventKind::segment_free:
      reserved_bytes -= event.bytes;
      break;
    case MemoryEventKind::oom:
      break;
  }
}

std::vector<std::size_t> allocated_by_moment(const MemoryHistory& history) {
  std::vector<std::size_t> allocated(history.events.size() + 1);
  walk_levels(history, [&](std::size_t moment, const MemoryEvent&, const MemoryLevel& level) {
    allocated[moment] = level.allocated_bytes;
  });
  return allocated;
}

// Notes where runs begin and end, and where the phase of the launches changes.
class HistoryRecorder::Marker : public LaunchObserver {
 public:
  struct Mark {
    std::size_t event;
    std::int64_t time_ns;
    Phase phase;
  };
  struct Run {
    HistorySpan span;
    std::vector<Mark> marks;
  };

  Marker(const Program& program, const MemoryTrace& trace) : trace_(trace) {
    for (const LaunchInfo& launch : program.launches()) phases_.push_back(program.graph().node(launch.node).phase);
  }

  void run_begins() override {
    runs_.push_back({.span = {.begin = trace_.size(), .begin_ns = trace_.now_ns()}, .marks = {}});
  }
  void before_launch(std::uint32_t launch) override {
    std::vector<Mark>& marks = runs_.back().marks;
    if (marks.empty() || marks.back().phase != phases_[launch])
      marks.push_back({trace_.size(), trace_.now_ns(), phases_[launch]});
  }
  void after_launch(std::uint32_t) override {}

  // After the device has finished the last run.
  void close_run() {
    runs_.back().span.end = trace_.size();
    runs_.back().span.end_ns = trace_.now_ns();
  }

  const std::vector<Run>& runs() const { return runs_; }

 private:
  const MemoryTrace& trace_;
  std::vector<Phase> phases_;  // by launch
  std::vector<Run> runs_;
};

namespace {

// Appends the phases of an iteration. A launch is marked after its blocks are allocated; their events belong to it.
template <typename Run>
void append_phases(const Graph& graph, std::size_t iteration, const Run& run, MemoryHistory& history) {
  if (run.marks.empty()) return;
  PhaseSpan span{run.span, iteration, run.marks.front().phase};
  const auto change = [&](std::size_t event, std::int64_t time_ns, Phase phase) {
    if (span.phase == phase) return;
    span.end = event;
    span.end_ns = time_ns;
    history.phases.push_back(span);
    span = {{event, run.span.end, time_ns, run.span.end_ns}, iteration, phase};
  };
  auto mark = run.marks.begin();
  for (std::size_t i = run.span.begin; i < run.span.end; ++i) {
    for (; mark != run.marks.end() && mark->event <= i; ++mark) change(mark->event, mark->time_ns, mark->phase);
    const MemoryEvent& event = history.events[i];
    if (event.kind == MemoryEventKind::alloc && event.node != kNoNode)
      change(i, event.time_ns, graph.node(NodeId{event.node}).phase);
  }
  for (; mark != run.marks.end(); ++mark) change(mark->event, mark->time_ns, mark->phase);
  history.phases.push_back(span);
}

}  // namespace

std::size_t HistoryRecorder::most_events(const ProgramPlan& plan, std::size_t iterations) {
  // An iteration allocates and frees each value and each node's workspace at most once. Segments are few: each request
  // takes one at most, and a request that finds the device full gives back what is unused.
  const Graph& graph = plan.graph();
  const std::size_t blocks = graph.value_count() + graph.node_capacity();
  return 4 * blocks + 2 * blocks * iterations;
}

HistoryRecorder::HistoryRecorder(Program& program, const MemoryTrace& trace)
    : program_(program), trace_(trace), marker_(std::make_unique<Marker>(program, trace)) {
  program_.observe(marker_.get());
}

HistoryRecorder::~HistoryRecorder() { program_.observe(nullptr); }

void HistoryRecorder::iterate() {
  program_.run();
  program_.synchronize();
  marker_->close_run();
}

MemoryHistory HistoryRecorder::finish(std::size_t warmup) const {
  if (trace_.dropped() > 0) throw Error("the history of the memory is longer than what was reserved for it");
  MemoryHistory history;
  history.warmup = warmup;
  history.start_unix_ns = trace_.start_unix_ns();
  history.events.reserve(trace_.size());
  for (std::size_t i = 0; i < trace_.size(); ++i) history.events.push_back(trace_[i]);
  for (std::size_t i = 0; i < marker_->runs().size(); ++i) {
    history.iterations.push_back(marker_->runs()[i].span);
    append_phases(program_.graph(), i, marker_->runs()[i], history);
  }
  return history;
}

}  // namespace ridgepoint
