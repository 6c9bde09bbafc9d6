#include "inspect/memory/contents.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "inspect/memory/blocks.h"
#include "inspect/memory/origin.h"
#include "ir/scope.h"
#include "predict/formula.h"

namespace ridgepoint {
namespace {

// Says where the blocks of a history come from.
class Origins {
 public:
  Origins(const MemoryHistory& history, const Graph& graph)
      : graph_(graph), outputs_(outputs_of_blocks(history, graph)) {}

  // The group of the block that the event allocates, with this block alone.
  MemoryGroup group_of(const MemoryEvent& event, std::size_t index) const {
    MemoryGroup group{.category = event.category,
                      .blocks = 1,
                      .bytes = event.bytes,
                      .rounding_bytes = event.bytes - event.requested_bytes};
    if (event.node == kNoNode) return group;
    const Node& node = graph_.node(NodeId{event.node});
    group.phase = node.phase;
    group.op = op_of(node);
    group.module = with_layers_added_up(module_of(graph_, node));
    group.source = graph_.source_name(node);
    if (outputs_[index]) group.formula = bytes_formula(graph_.type(node.outputs[*outputs_[index]]));
    return group;
  }

 private:
  const Graph& graph_;
  std::vector<std::optional<std::uint32_t>> outputs_;  // by event
};

class Groups {
 public:
  // Returns the group's number.
  std::size_t add(MemoryGroup group) {
    const auto key =
        std::tuple(group.category, group.phase, group.module, group.op, group.formula, group.source, group.bytes);
    const auto [found, is_new] = numbers_.try_emplace(key, groups_.size());
    if (is_new) {
      groups_.push_back(std::move(group));
    } else {
      MemoryGroup& same = groups_[found->second];
      ++same.blocks;
      same.bytes += group.bytes;
      same.rounding_bytes += group.rounding_bytes;
    }
    return found->second;
  }

  std::vector<MemoryGroup> take() { return std::move(groups_); }

 private:
  using Key = std::tuple<MemoryCategory, Phase, std::string, std::string, std::string, std::string,
                         std::size_t /* of a block */>;
  std::map<Key, std::size_t> numbers_;
  std::vector<MemoryGroup> groups_;
};

// The first moment at which the phase computes. Its first launch runs after it has its blocks, and before it frees any;
// the first of an iteration runs after the outputs of the last one are freed.
std::size_t first_moment(const MemoryHistory& history, const PhaseSpan& span) {
  const auto is = [&](std::size_t event, MemoryEventKind kind) {
    return event < span.end && history.events[event].kind == kind;
  };
  std::size_t moment = span.begin;
  if (span.begin == history.iterations[span.iteration].begin) {
    while (is(moment, MemoryEventKind::free)) ++moment;
  }
  while (is(moment, MemoryEventKind::segment_alloc) || is(moment, MemoryEventKind::segment_free)) ++moment;
  return is(moment, MemoryEventKind::alloc) ? moment + 1 : moment;
}

}  // namespace

std::vector<HeldMemory> contents_at(const MemoryHistory& history, const Graph& graph,
                                    std::span<const std::size_t> moments) {
  const Origins origins(history, graph);
  std::vector<HeldMemory> found;
  LiveBlocks live;
  MemoryLevel level;
  std::size_t applied = 0;
  for (const std::size_t moment : moments) {
    for (; applied < moment; ++applied) {
      live.apply(history.events[applied], applied);
      level.apply(history.events[applied]);
    }
    Groups groups;
    for (const std::size_t index : live.events()) groups.add(origins.group_of(history.events[index], index));
    HeldMemory& contents = found.emplace_back(HeldMemory{moment, level, groups.take()});
    std::ranges::stable_sort(contents.groups, std::greater<>(), &MemoryGroup::bytes);
  }
  return found;
}

std::vector<MemoryRequest> requests_of(const MemoryHistory& history, const Graph& graph, std::size_t iteration,
                                       std::size_t moment) {
  const Origins origins(history, graph);
  const HistorySpan& span = history.iterations[iteration];
  const std::vector<std::size_t> held = live_blocks_at(history, moment);
  Groups groups;
  std::vector<std::size_t> held_of;
  for (std::size_t i = span.begin; i < span.end; ++i) {
    const MemoryEvent& event = history.events[i];
    if (event.kind != MemoryEventKind::alloc) continue;
    const std::size_t group = groups.add(origins.group_of(event, i));
    held_of.resize(std::max(held_of.size(), group + 1));
    if (std::ranges::binary_search(held, i)) ++held_of[group];
  }
  std::vector<MemoryRequest> requests;
  for (MemoryGroup& group : groups.take()) requests.push_back({std::move(group), held_of[requests.size()]});
  std::ranges::stable_sort(requests, std::greater<>(),
                           [](const MemoryRequest& request) { return request.group.block_bytes(); });
  return requests;
}

MemoryPeaks find_peaks(const MemoryHistory& history, const Graph& graph) {
  struct Highest {
    Phase phase;
    std::size_t bytes = 0;
    std::size_t moment = 0;
  };
  MemoryPeaks peaks;
  std::vector<Highest> highest;
  std::optional<std::size_t> boundary;
  const std::vector<std::size_t> allocated = allocated_by_moment(history);
  walk_levels(history, [&](std::size_t moment, const MemoryEvent&, const MemoryLevel& level) {
    if (moment > history.begin()) peaks.peak_reserved_bytes = std::max(peaks.peak_reserved_bytes, level.reserved_bytes);
  });
  for (const PhaseSpan& span : history.phases) {
    if (span.iteration < history.warmup) continue;
    const bool is_backward = span.phase == Phase::backward || span.phase == Phase::recompute;
    if (is_backward && !boundary) boundary = span.begin;
    auto found = std::ranges::find(highest, span.phase, &Highest::phase);
    if (found == highest.end()) found = highest.insert(highest.end(), {span.phase});
    for (std::size_t moment = first_moment(history, span); moment <= span.end; ++moment) {
      if (allocated[moment] <= found->bytes) continue;
      found->bytes = allocated[moment];
      found->moment = moment;
    }
  }
  std::vector<std::size_t> moments;
  for (const Highest& peak : highest) moments.push_back(peak.moment);
  if (boundary) moments.push_back(*boundary);
  std::ranges::sort(moments);
  const std::vector<HeldMemory> contents = contents_at(history, graph, moments);
  const auto at = [&](std::size_t moment) { return *std::ranges::find(contents, moment, &HeldMemory::moment); };
  for (const Highest& peak : highest) peaks.phases.push_back({peak.phase, at(peak.moment)});
  if (boundary) peaks.before_backward = at(*boundary);
  const auto top = std::ranges::max_element(highest, {}, &Highest::bytes);
  peaks.highest = static_cast<std::size_t>(top - highest.begin());
  return peaks;
}

}  // namespace ridgepoint
