// Collectives of several ranks, each in a trace of its own, and the clocks of the ranks.
#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/median.h"
#include "inspect/trace/analysis.h"

namespace ridgepoint {
namespace {

// The n-th run of a kernel's name.
using CollectiveKey = std::pair<std::string_view, std::int64_t>;
using CollectivesOfRank = std::map<CollectiveKey, const CollectiveTime*>;

CollectivesOfRank keyed(const TraceLane& lane) {
  CollectivesOfRank keyed;
  std::map<std::string_view, std::int64_t> runs;
  for (const CollectiveTime& time : lane.collectives.collectives) {
    const std::string_view name = lane.timeline.name_of(lane.timeline.events[time.kernel]);
    keyed.emplace(CollectiveKey(name, runs[name]++), &time);
  }
  return keyed;
}

std::int64_t median_of(std::vector<std::int64_t> values) {
  return values.empty() ? 0 : upper_median(std::move(values));
}

// The collectives that all these ranks have, by name and then by run: [rank][collective].
std::vector<std::vector<const CollectiveTime*>> matched(const std::vector<CollectivesOfRank>& ranks) {
  std::vector<std::vector<const CollectiveTime*>> found(ranks.size());
  for (const auto& item : ranks.front()) {
    const CollectiveKey& key = item.first;
    const auto has = [&](const CollectivesOfRank& rank) { return rank.contains(key); };
    if (!std::ranges::all_of(ranks, has)) continue;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) found[rank].push_back(ranks[rank].at(key));
  }
  return found;
}

// A collective ends on all ranks at about the same time, so the ends show how the clocks differ.
std::int64_t clock_difference(const std::vector<const CollectiveTime*>& of,
                              const std::vector<const CollectiveTime*>& to) {
  std::vector<std::int64_t> differences;
  for (std::size_t i = 0; i < of.size(); ++i) differences.push_back(of[i]->end_ns - to[i]->end_ns);
  return median_of(std::move(differences));
}

void count_last(const std::vector<std::vector<RankSpan>>& spans, const std::vector<std::size_t>& places,
                std::vector<TraceRank>& ranks) {
  for (std::size_t i = 0; i < spans.front().size(); ++i) {
    const auto last =
        std::ranges::max_element(spans, {}, [&](const std::vector<RankSpan>& of_rank) { return of_rank[i].begin_ns; });
    ++ranks[places[static_cast<std::size_t>(last - spans.begin())]].last;
  }
}

}  // namespace

std::vector<TraceRank> compare_ranks(const std::vector<TraceLane>& lanes) {
  std::vector<CollectivesOfRank> keys;
  std::vector<std::size_t> places;  // the ranks that have collectives
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].collectives.collectives.empty()) continue;
    const auto is_of_other_run = [&](std::size_t other) {
      return lanes[other].rank == lanes[lane].rank && lanes[other].file != lanes[lane].file;
    };
    if (lanes[lane].rank && std::ranges::any_of(places, is_of_other_run)) return {};
    keys.push_back(keyed(lanes[lane]));
    places.push_back(lane);
  }
  if (places.size() < 2) return {};
  const std::vector<std::vector<const CollectiveTime*>> times = matched(keys);
  if (times.front().empty()) return {};
  std::vector<TraceRank> ranks(lanes.size());
  std::vector<std::vector<RankSpan>> spans(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    TraceRank& rank = ranks[places[i]];
    rank.matched = static_cast<std::int64_t>(times[i].size());
    rank.clock_ns = clock_difference(times[i], times.front());
    for (const CollectiveTime* time : times[i])
      spans[i].push_back({time->begin_ns - rank.clock_ns, time->end_ns - time->begin_ns});
  }
  const std::vector<RankCommunication> sums = compare_collectives(spans);
  for (std::size_t i = 0; i < places.size(); ++i) {
    ranks[places[i]].time_ns = sums[i].time_ns;
    ranks[places[i]].late_ns = sums[i].late_ns;
  }
  count_last(spans, places, ranks);
  return ranks;
}

}  // namespace ridgepoint
