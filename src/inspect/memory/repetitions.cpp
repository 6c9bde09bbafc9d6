#include "inspect/memory/repetitions.h"

#include <algorithm>
#include <map>

namespace ridgepoint {
namespace {

using Basis = MemoryLeaks::Basis;

// "ProfilerStep#12" -> "ProfilerStep"
std::string without_number(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  if (last == std::string::npos || last + 1 == name.size()) return name;
  const std::size_t end = name.find_last_not_of("#_ :/-[(", last);
  return end == std::string::npos ? name : name.substr(0, end + 1);
}

struct Group {
  std::vector<const MemoryPhase*> phases;
  std::size_t covered = 0;
};

}  // namespace

Repetitions annotated_repetitions(const Snapshot& snapshot, const HistorySummary& summary) {
  const bool is_ours = snapshot.settings.counted_from_us.has_value();
  std::map<std::string, Group> groups;
  for (const MemoryPhase& phase : summary.report.phases) {
    if (!phase.is_counted || !phase.is_whole || (is_ours && phase.depth > 0)) continue;
    Group& group = groups[without_number(phase.name)];
    // One within another of the same name is part of it.
    if (!group.phases.empty() && phase.begin.moment < group.phases.back()->end.moment) continue;
    group.phases.push_back(&phase);
    group.covered += phase.end.moment - phase.begin.moment;
  }
  const auto best = std::ranges::max_element(groups, {}, [](const auto& group) {
    return group.second.phases.size() >= 2 ? group.second.covered : std::size_t{0};
  });
  if (best == groups.end() || best->second.phases.size() < 2 || best->second.covered == 0) return {};
  Repetitions found{Basis::annotations, best->first, {}};
  for (const MemoryPhase* phase : best->second.phases) {
    found.each.push_back({phase->begin.moment, phase->peak, phase->end.moment, phase->end_bytes});
  }
  return found;
}

Repetitions repetitions_by_level(const HistorySummary& summary, const std::vector<MemoryCycle>& cycles) {
  Repetitions found;
  if (!cycles.empty()) {
    found.basis = Basis::cycles;
    for (const MemoryCycle& cycle : cycles) {
      found.each.push_back(
          {cycle.begin.at.moment, cycle.peak_begin.at.moment, cycle.end.at.moment, cycle.end.allocated_bytes});
    }
    return found;
  }
  const MemoryReport& report = summary.report;
  const MemoryWindow& window = report.window;
  if ((window.is_range || report.start.allocated_bytes > 0) && window.end.moment > 0) {
    found.basis = Basis::window;
    found.each.push_back({window.is_range ? window.begin.moment : 0, report.contents.at.moment, window.end.moment,
                          summary.end.allocated_bytes});
  }
  return found;
}

}  // namespace ridgepoint
