#include "inspect/memory/run/record_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "backends/null/null_device.h"
#include "interchange/snapshot/write_snapshot.h"
#include "ir/scope.h"
#include "memory/segment_sizes.h"
#include "ops/rule.h"
#include "plan/plan.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/activity.h"

namespace ridgepoint {

// Notes where runs begin and end, and where the phase of the launches changes.
class HistoryRecorder::Marker : public LaunchObserver {
 public:
  struct Mark {
    std::size_t event;
    std::int64_t time_ns;
    Phase phase;
  };
  struct Run {
    std::size_t begin = 0, end = 0;  // events
    std::int64_t begin_ns = 0, launched_ns = 0, end_ns = 0;
    bool has_ended = false;  // otherwise a request failed
    std::vector<Mark> marks = {};
  };

  Marker(const ProgramPlan& plan, const MemoryTrace& trace) : trace_(trace) {
    for (const PlanStep& step : plan.execution().steps) phases_.push_back(step.phase);
  }

  void run_begins() override { runs_.push_back({.begin = trace_.size(), .begin_ns = trace_.now_ns()}); }
  void before_launch(std::uint32_t launch) override {
    std::vector<Mark>& marks = runs_.back().marks;
    if (marks.empty() || marks.back().phase != phases_[launch])
      marks.push_back({trace_.size(), trace_.now_ns(), phases_[launch]});
  }
  void after_launch(std::uint32_t) override {}
  void run_ends() override { runs_.back().launched_ns = trace_.now_ns(); }

  // After the device has finished the last run.
  void close_run() {
    runs_.back().end = trace_.size();
    runs_.back().end_ns = trace_.now_ns();
    runs_.back().has_ended = true;
  }

  const std::vector<Run>& runs() const { return runs_; }

 private:
  const MemoryTrace& trace_;
  std::vector<Phase> phases_;  // by launch
  std::vector<Run> runs_;
};

namespace {

// Makes the origins of blocks.
class Origins {
 public:
  Origins(const Graph& graph, const SymbolSizes& sizes, RecordedMemory& found)
      : graph_(graph), sizes_(sizes), found_(found) {
    found_.sources.push_back({});  // of kNoOrigin
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      first_made_.try_emplace(std::string(name(node.phase)), id);
      for (const std::string& module : modules_around(graph.scope_name(node))) first_made_.try_emplace(module, id);
    }
  }

  // Of a block that the event allocates, or fails to allocate. Events come in their order.
  std::uint32_t of_block(const MemoryEvent& event) {
    if (event.node == kNoNode) return kNoOrigin;
    const Node& node = graph_.node(NodeId{event.node});
    if (event.node != node_) is_taken_.assign(node.outputs.size(), false);
    node_ = event.node;
    if (event.category == MemoryCategory::workspace) return of(event.node, std::nullopt);
    for (std::uint32_t output = 0; output < node.outputs.size(); ++output) {
      if (is_taken_[output] || storage_type(graph_, node.outputs[output]).bytes() != event.requested_bytes) continue;
      is_taken_[output] = true;
      return of(event.node, output);
    }
    return of(event.node, std::nullopt);
  }

  std::uint32_t of(std::uint32_t node_id, std::optional<std::uint32_t> output) {
    if (node_id == kNoNode) return kNoOrigin;
    Snapshot& snapshot = found_.snapshot;
    const auto [known, is_new] =
        numbers_.try_emplace({node_id, output}, static_cast<std::uint32_t>(snapshot.origins.size()));
    if (!is_new) return known->second;
    const Node& node = graph_.node(NodeId{node_id});
    SnapshotOrigin origin{.frame = frame_of(node), .around = frames_around(node)};
    origin.phase = snapshot.texts.intern(name(node.phase));
    if (output)
      origin.formula = snapshot.texts.intern(bytes_formula(storage_type(graph_, node.outputs[*output]), sizes_));
    snapshot.origins.push_back(origin);
    found_.sources.push_back({NodeId{node_id}, output});
    return known->second;
  }

 private:
  // "matmul of layers.0.attn.q_proj", of an input "parameter lm_head.weight", at the line of the model's code.
  std::uint32_t frame_of(const Node& node) {
    const bool is_input = node.op == Op::input;
    const std::string& module = is_input ? input_name(node) : graph_.scope_name(node);
    const std::string_view op = is_input ? name(input_role(node)) : operation_name(node);
    const std::string_view between = module.empty() ? "" : is_input ? " " : " of ";
    return frame_at(node, fmt::format("{}{}{}", op, between, module));
  }

  // Numbers of Snapshot::stacks.
  std::uint32_t frames_around(const Node& node) {
    Snapshot& snapshot = found_.snapshot;
    const auto [known, is_new] =
        stacks_.try_emplace({node.scope, node.phase}, static_cast<std::uint32_t>(snapshot.stacks.size()));
    if (!is_new) return known->second;
    std::vector<std::string> names = modules_around(graph_.scope_name(node));
    if (names.empty() || names.back() != name(node.phase)) names.emplace_back(name(node.phase));
    std::vector<std::uint32_t> frames;
    for (const std::string& each : names) frames.push_back(frame_at(graph_.node(first_made_.at(each)), each));
    snapshot.stacks.push_back(std::move(frames));
    return known->second;
  }

  // layers.0.attn, layers.0 for layers.0.attn.
  static std::vector<std::string> modules_around(const std::string& scope) {
    std::vector<std::string> modules;
    for (const std::string& level : scope_levels(scope))
      modules.insert(modules.begin(), modules.empty() ? level : modules.front() + "." + level);
    return modules;
  }

  std::uint32_t frame_at(const Node& node, std::string_view text) {
    Snapshot& snapshot = found_.snapshot;
    SnapshotFrame frame;
    frame.name = snapshot.texts.intern(text);
    const std::string_view source = graph_.source_name(node);  // "src/models/transformer/transformer.cpp:72"
    const std::size_t colon = source.rfind(':');
    frame.filename = snapshot.texts.intern(source.substr(0, colon));
    if (colon != std::string_view::npos)
      std::from_chars(source.data() + colon + 1, source.data() + source.size(), frame.line);
    const auto [known, is_new] = frames_.try_emplace({frame.filename, frame.line, frame.name},
                                                     static_cast<std::uint32_t>(snapshot.frames.size()));
    if (is_new) snapshot.frames.push_back(frame);
    return known->second;
  }

  const Graph& graph_;
  const SymbolSizes& sizes_;
  RecordedMemory& found_;
  std::uint32_t node_ = kNoNode;  // of the last block
  std::vector<bool> is_taken_;
  std::map<std::pair<std::uint32_t, std::optional<std::uint32_t>>, std::uint32_t> numbers_;
  std::map<std::tuple<std::uint32_t, std::int32_t, std::uint32_t>, std::uint32_t> frames_;
  std::map<std::string, NodeId> first_made_;                         // of each module and phase
  std::map<std::pair<std::uint32_t, Phase>, std::uint32_t> stacks_;  // by scope and phase
};

// Makes the snapshot of a trace's events. An annotation comes directly before the event at which it is made. Times are
// whole microseconds, as in the file.
class SnapshotBuilder {
 public:
  // Of the first `events` of the trace.
  SnapshotBuilder(const Graph& graph, const SymbolSizes& sizes, const MemoryTrace& trace, std::size_t events,
                  bool has_clock, RecordedMemory& found)
      : trace_(trace), events_(events), has_clock_(has_clock), found_(found), origins_(graph, sizes, found) {
    last_us_ = trace.start_unix_ns() / 1000 - 1;
    snapshot().settings.has_clock = has_clock;
    for (const std::string_view category : kMemoryCategoryNames.all()) snapshot().categories.emplace_back(category);
    snapshot().histories.emplace_back();
  }

  // Takes the events before this one.
  void take_events(std::size_t end) {
    for (; taken_ < end; ++taken_) take(trace_[taken_]);
  }
  // Returns the time.
  std::int64_t mark(std::string_view text, bool is_start, std::int64_t time_ns) {
    if (!is_marked_) ++last_us_;
    if (has_clock_) last_us_ = std::max(last_us_, unix_us(time_ns));
    is_marked_ = true;
    snapshot().annotations.push_back({snapshot().texts.intern(text), is_start, 0, last_us_});
    return last_us_;
  }
  void finish() {
    take_events(events_);
    snapshot().histories[0].close();
    for (const auto& [address, made] : segments_) add_segment(address, *made);
  }

 private:
  struct LiveBlock {
    const MemoryEvent* made = nullptr;
    std::uint32_t origin = kNoOrigin;
  };

  Snapshot& snapshot() { return found_.snapshot; }
  std::int64_t unix_us(std::int64_t time_ns) const { return (trace_.start_unix_ns() + time_ns) / 1000; }
  static std::uint8_t category_of(const MemoryEvent& event) {
    return static_cast<std::uint8_t>(static_cast<int>(event.category) + 1);  // after "unknown"
  }

  void take(const MemoryEvent& event) {
    if (!has_clock_ && !is_marked_) ++last_us_;
    if (has_clock_) last_us_ = std::max(last_us_, unix_us(event.time_ns));
    is_marked_ = false;
    MemoryHistory::Request request{.size_bytes = event.requested_bytes, .origin = origin_of(event)};
    const bool is_block = event.kind == MemoryEventKind::alloc || event.kind == MemoryEventKind::free;
    if (is_block || event.kind == MemoryEventKind::oom) {
      request.category = category_of(event);
      request.rounding_bytes = static_cast<std::uint32_t>(event.bytes - event.requested_bytes);
    }
    snapshot().histories[0].add(event.kind, event.address, request, last_us_);
    if (event.kind == MemoryEventKind::segment_alloc) segments_[event.address] = &event;
    if (event.kind == MemoryEventKind::segment_free) segments_.erase(event.address);
  }

  // The origin of a block is known when it is allocated.
  std::uint32_t origin_of(const MemoryEvent& event) {
    if (event.kind == MemoryEventKind::alloc) {
      const std::uint32_t origin = origins_.of_block(event);
      blocks_[event.address] = {&event, origin};
      return origin;
    }
    if (event.kind == MemoryEventKind::oom) return origins_.of_block(event);
    if (event.kind != MemoryEventKind::free) return origins_.of(event.node, std::nullopt);
    const auto block = blocks_.find(event.address);
    const std::uint32_t origin = block->second.origin;
    blocks_.erase(block);
    return origin;
  }

  void add_segment(std::uint64_t address, const MemoryEvent& made) {
    SnapshotSegment segment{.address = address,
                            .size_bytes = made.bytes,
                            .origin = origins_.of(made.node, std::nullopt),
                            .is_large = is_large_segment(made.bytes)};
    for (auto block = blocks_.lower_bound(address); block != blocks_.end() && block->first < address + made.bytes;
         ++block) {
      const MemoryEvent& event = *block->second.made;
      segment.blocks.push_back({.address = event.address,
                                .size_bytes = event.bytes,
                                .requested_bytes = event.requested_bytes,
                                .origin = block->second.origin,
                                .state = BlockState::active_allocated,
                                .category = category_of(event)});
    }
    segment.blocks = tiled(segment);
    snapshot().segments.push_back(std::move(segment));
  }

  const MemoryTrace& trace_;
  std::size_t events_;
  bool has_clock_;
  RecordedMemory& found_;
  Origins origins_;
  std::size_t taken_ = 0;
  std::int64_t last_us_ = 0;
  bool is_marked_ = false;                                // an annotation has been made since the last event
  std::map<std::uint64_t, LiveBlock> blocks_;             // by address
  std::map<std::uint64_t, const MemoryEvent*> segments_;  // live, by address
};

// The phases of a run. A launch is marked after its blocks are allocated; their events belong to it.
template <typename Run>
void mark_phases(const Graph& graph, const MemoryTrace& trace, const Run& run, SnapshotBuilder& builder) {
  if (run.marks.empty()) return;
  Phase phase = run.marks.front().phase;
  builder.mark(name(phase), true, run.begin_ns);
  const auto change = [&](std::size_t event, std::int64_t time_ns, Phase next) {
    if (next == phase) return;
    builder.take_events(event);
    builder.mark(name(phase), false, time_ns);
    builder.mark(name(next), true, time_ns);
    phase = next;
  };
  auto mark = run.marks.begin();
  for (std::size_t i = run.begin; i < run.end; ++i) {
    for (; mark != run.marks.end() && mark->event <= i; ++mark) change(mark->event, mark->time_ns, mark->phase);
    const MemoryEvent& event = trace[i];
    if (event.kind == MemoryEventKind::alloc && event.node != kNoNode)
      change(i, event.time_ns, graph.node(NodeId{event.node}).phase);
  }
  for (; mark != run.marks.end(); ++mark) change(mark->event, mark->time_ns, mark->phase);
  builder.take_events(run.end);
  builder.mark(name(phase), false, run.launched_ns);
}

// Includes the request that failed, but not the releases after it, which are no part of the run.
std::size_t events_until_failure(const MemoryTrace& trace) {
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].kind == MemoryEventKind::oom) return i + 1;
  }
  return trace.size();
}

}  // namespace

std::size_t HistoryRecorder::most_events(const ProgramPlan& plan, std::size_t iterations) {
  // An iteration allocates and frees each value and each node's workspace at most once. Segments are few: each request
  // takes one at most, and a request that finds the device full gives back what is unused.
  const Graph& graph = plan.graph();
  const std::size_t blocks = graph.value_count() + graph.node_capacity();
  return 4 * blocks + 2 * blocks * iterations;
}

HistoryRecorder::HistoryRecorder(const ProgramPlan& plan, MemoryTrace& trace, SymbolSizes sizes)
    : plan_(plan), trace_(trace), sizes_(std::move(sizes)), marker_(std::make_unique<Marker>(plan, trace)) {}

HistoryRecorder::~HistoryRecorder() = default;

void HistoryRecorder::iterate(Program& program) {
  const Observation observation(program, *marker_);
  program.run();
  program.synchronize();
  marker_->close_run();
}

void HistoryRecorder::walk(std::size_t memory_bytes, std::int64_t iterations) {
  try {
    Program walk(plan_, make_null_device(plan_.device(), memory_bytes), {.memory_trace = &trace_});
    for (std::int64_t i = 0; i < iterations; ++i) iterate(walk);
  } catch (const OutOfMemory&) {
  }
}

RecordedMemory HistoryRecorder::finish(std::size_t warmup, bool has_clock) const {
  if (trace_.dropped() > 0) throw Error("the history of the memory is longer than what was reserved for it");
  RecordedMemory found;
  const std::size_t events = events_until_failure(trace_);
  SnapshotBuilder builder(plan_.graph(), sizes_, trace_, events, has_clock, found);
  for (std::size_t i = 0; i < marker_->runs().size(); ++i) {
    Marker::Run run = marker_->runs()[i];
    if (!run.has_ended) {
      run.end = events;
      run.launched_ns = run.end_ns = trace_[events - 1].time_ns;
    }
    const std::string text =
        i < warmup ? fmt::format("warm-up {}", i + 1) : fmt::format("iteration {}", i + 1 - warmup);
    builder.take_events(run.begin);
    const std::int64_t begin_us = builder.mark(text, true, run.begin_ns);
    if (i == warmup) found.snapshot.settings.counted_from_us = begin_us;
    mark_phases(plan_.graph(), trace_, run, builder);
    builder.take_events(run.end);
    builder.mark(text, false, run.end_ns);
  }
  builder.finish();
  return found;
}

}  // namespace ridgepoint
