#include "inspect/memory/to_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "inspect/memory/origin.h"

namespace ridgepoint {
namespace {

using Document = SnapshotDocument;

constexpr std::size_t kSmallSegmentBytes = std::size_t{2} << 20;

class SnapshotBuilder {
 public:
  explicit SnapshotBuilder(const MemoryRun& run)
      : graph_(run.graph()), history_(run.history), has_times_(run.run.device.kind != "null") {}

  Document build() {
    document_.devices.emplace_back();
    set_times();
    for (std::size_t i = 0; i < history_.events.size(); ++i) add(history_.events[i], i);
    add_segments();
    add_annotations();
    return std::move(document_);
  }

 private:
  // An annotation is at the time of the event that it comes before, so that event is later than all before it.
  void set_times() {
    const std::size_t count = history_.events.size();
    std::vector<bool> is_annotated(count + 1);
    for (const HistorySpan& span : history_.iterations) is_annotated[span.begin] = is_annotated[span.end] = true;
    for (const PhaseSpan& span : history_.phases) is_annotated[span.begin] = is_annotated[span.end] = true;
    std::int64_t last_us = history_.start_unix_ns / 1000 - 1;
    for (std::size_t i = 0; i <= count; ++i) {
      std::int64_t now_us = last_us + (is_annotated[i] || !has_times_ ? 1 : 0);
      if (has_times_ && i < count)
        now_us = std::max(now_us, (history_.start_unix_ns + history_.events[i].time_ns) / 1000);
      times_us_.push_back(now_us);
      last_us = now_us;
    }
  }

  static SnapshotAction action_of(MemoryEventKind kind) {
    switch (kind) {
      case MemoryEventKind::alloc:
        return SnapshotAction::alloc;
      case MemoryEventKind::free:
        return SnapshotAction::free;
      case MemoryEventKind::segment_alloc:
        return SnapshotAction::segment_alloc;
      case MemoryEventKind::segment_free:
        return SnapshotAction::segment_free;
      case MemoryEventKind::oom:
        break;
    }
    return SnapshotAction::oom;
  }

  void add(const MemoryEvent& event, std::size_t index) {
    const bool is_block = event.kind == MemoryEventKind::alloc || event.kind == MemoryEventKind::free;
    document_.devices[0].events.push_back({.action = action_of(event.kind),
                                           .address = event.address,
                                           .size_bytes = event.requested_bytes,
                                           .block_bytes = is_block ? event.bytes : 0,
                                           .time_us = times_us_[index],
                                           .stack = stack_of(event.node),
                                           .category = is_block ? std::string(name(event.category)) : std::string()});
    if (event.kind == MemoryEventKind::alloc) blocks_[event.address] = &event;
    if (event.kind == MemoryEventKind::free) blocks_.erase(event.address);
    if (event.kind == MemoryEventKind::segment_alloc) segments_[event.address] = &event;
    if (event.kind == MemoryEventKind::segment_free) segments_.erase(event.address);
  }

  std::uint32_t stack_of(std::uint32_t node_id) {
    if (node_id == kNoNode) return Document::kNoStack;
    const auto [found, is_new] = stacks_.try_emplace(node_id, static_cast<std::uint32_t>(document_.stacks.size()));
    if (!is_new) return found->second;
    const Node& node = graph_.node(NodeId{node_id});
    const std::string& module = module_of(graph_, node);
    const std::string_view between = module.empty() ? "" : node.op == Op::input ? " " : " of ";
    const std::string text = fmt::format("{}{}{}", op_of(node), between, module);
    const auto [file, line] = split_source(graph_.source_name(node));
    document_.stacks.push_back({frame({std::string(file), line, text}), frame({"", 0, std::string(name(node.phase))})});
    return found->second;
  }

  // "transformer.cpp:72"
  static std::pair<std::string_view, int> split_source(std::string_view source) {
    const std::size_t colon = source.rfind(':');
    int line = 0;
    if (colon != std::string_view::npos)
      std::from_chars(source.data() + colon + 1, source.data() + source.size(), line);
    return {source.substr(0, colon), line};
  }

  std::uint32_t frame(Document::Frame frame) {
    const auto key = std::tuple(frame.filename, frame.line, frame.name);
    const auto [found, is_new] = frames_.try_emplace(key, static_cast<std::uint32_t>(document_.frames.size()));
    if (is_new) document_.frames.push_back(std::move(frame));
    return found->second;
  }

  void add_segments() {
    for (const auto& [address, made] : segments_) {
      Document::Segment& segment = document_.devices[0].segments.emplace_back();
      segment.address = address;
      segment.size_bytes = made->bytes;
      segment.is_large = made->bytes > kSmallSegmentBytes;
      segment.stack = stack_of(made->node);
      for (auto block = blocks_.lower_bound(address); block != blocks_.end() && block->first < address + made->bytes;
           ++block) {
        const MemoryEvent& event = *block->second;
        segment.blocks.push_back({.address = event.address,
                                  .size_bytes = event.bytes,
                                  .requested_bytes = event.requested_bytes,
                                  .stack = stack_of(event.node),
                                  .category = std::string(name(event.category))});
      }
    }
  }

  // Annotations of one time are in the order of their ends: a phase ends before the next begins, within its iteration.
  void add_annotations() {
    std::size_t phase = 0;
    for (std::size_t i = 0; i < history_.iterations.size(); ++i) {
      const HistorySpan& iteration = history_.iterations[i];
      const std::string name_of = fmt::format("{} {}", i < history_.warmup ? "warm-up" : "iteration",
                                              1 + (i < history_.warmup ? i : i - history_.warmup));
      mark(name_of, true, iteration.begin);
      for (; phase < history_.phases.size() && history_.phases[phase].iteration == i; ++phase) {
        const PhaseSpan& span = history_.phases[phase];
        mark(std::string(name(span.phase)), true, span.begin);
        mark(std::string(name(span.phase)), false, span.end);
      }
      mark(name_of, false, iteration.end);
    }
  }

  void mark(std::string text, bool is_start, std::size_t event) {
    document_.annotations.push_back({std::move(text), is_start, 0, times_us_[event]});
  }

  const Graph& graph_;
  const MemoryHistory& history_;
  bool has_times_;
  std::vector<std::int64_t> times_us_;  // of the events, and of the end
  Document document_;
  std::map<std::uint64_t, const MemoryEvent*> blocks_, segments_;  // live, by address
  std::map<std::uint32_t, std::uint32_t> stacks_;                  // by node
  std::map<std::tuple<std::string, int, std::string>, std::uint32_t> frames_;
};

}  // namespace

SnapshotDocument to_snapshot(const MemoryRun& run) { return SnapshotBuilder(run).build(); }

}  // namespace ridgepoint
