#include "inspect/profile/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/median.h"
#include "core/text/json.h"
#include "ridgepoint/ir/op.h"
#include "runtime/device/communicator.h"
#include "runtime/device/host_device.h"

namespace ridgepoint {
namespace {

bool is_communication(const DeviceEvent& event) { return event.kernel_class == KernelClass::communication; }

// Without the fills that mark on a GPU that a collective runs.
bool is_collective(const DeviceEvent& event) { return is_communication(event) && event.kind != ActivityKind::fill; }

// A time in which no kernel but collectives ran.
struct Gap {
  std::int64_t begin_ns, end_ns;
  std::optional<std::size_t> next;  // the kernel after it; empty at the end of a step
};

// In order; none is inside another.
std::vector<Gap> gaps_of(const DeviceTimeline& timeline, std::uint32_t step) {
  std::vector<Gap> gaps;
  std::int64_t until_ns = timeline.steps[step].begin_ns;
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    const DeviceEvent& event = timeline.events[i];
    if (event.step != step || is_communication(event)) continue;
    if (event.start_ns > until_ns) gaps.push_back({until_ns, event.start_ns, i});
    until_ns = std::max(until_ns, event.end_ns());
  }
  gaps.push_back({until_ns, std::max(until_ns, timeline.steps[step].end_ns), std::nullopt});
  return gaps;
}

// The collectives of a step, in order of start.
std::vector<CollectiveTime> collectives_of(const DeviceTimeline& timeline, std::uint32_t step) {
  std::vector<CollectiveTime> times;
  std::map<std::uint32_t, std::size_t> by_group;
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    const DeviceEvent& event = timeline.events[i];
    if (event.step != step || !is_collective(event)) continue;
    const auto [found, is_new] = by_group.emplace(event.group, times.size());
    if (is_new) times.push_back({.kernel = i, .begin_ns = event.start_ns, .end_ns = event.end_ns(), .waiting = {}});
    CollectiveTime& time = times[found->second];
    time.end_ns = std::max(time.end_ns, event.end_ns());
  }
  return times;
}

// The first gap that ends at or after a time.
auto gap_ending_after(const std::vector<Gap>& gaps, std::int64_t at_ns) {
  return std::ranges::lower_bound(gaps, at_ns, {}, &Gap::end_ns);
}

// A gap in which a collective does not end has another cause: the host was late.
void find_exposed(CollectiveTime& time, const std::vector<Gap>& gaps) {
  const auto gap = gap_ending_after(gaps, time.end_ns);
  if (gap == gaps.end() || gap->begin_ns >= time.end_ns) return;
  time.exposed_ns = time.end_ns - std::max(gap->begin_ns, time.begin_ns);
  time.waiting = gap->next;
}

// In which collectives ran, and no other kernel.
std::int64_t alone_ns(const std::vector<CollectiveTime>& times, const std::vector<Gap>& gaps) {
  std::int64_t sum = 0, until_ns = INT64_MIN;
  for (const CollectiveTime& time : times) {
    const std::int64_t begin_ns = std::max(time.begin_ns, until_ns);
    for (auto gap = gap_ending_after(gaps, begin_ns); gap != gaps.end() && gap->begin_ns < time.end_ns; ++gap)
      sum += std::max<std::int64_t>(std::min(time.end_ns, gap->end_ns) - std::max(begin_ns, gap->begin_ns), 0);
    until_ns = std::max(until_ns, time.end_ns);
  }
  return sum;
}

std::string node_name(const DeviceTimeline& timeline, const DeviceEvent& event) {
  const auto& [op, scope] = timeline.place_of(event);
  return scope.empty() ? op : scope + ' ' + op;
}

// A rank's message to the others: when each collective began and ended, by the clock of rank 0.
Json spans_of(const Profile& profile, const Communication& found, std::int64_t offset_ns) {
  Json spans = Json::array();
  for (const CollectiveTime& time : found.collectives) {
    spans.push_back({time.begin_ns + profile.begin_ns - offset_ns, time.end_ns - time.begin_ns});
  }
  return {{"exposed_ns", found.exposed_ns}, {"spans", std::move(spans)}};
}

}  // namespace

double Communication::hidden() const {
  return time_ns == 0 ? 1 : 1 - static_cast<double>(exposed_ns) / static_cast<double>(time_ns);
}

void Communication::add(const CollectiveTime& time) {
  time_ns += time.end_ns - time.begin_ns;
  exposed_ns += time.exposed_ns;
  collectives.push_back(time);
}

Communication communication(const DeviceTimeline& timeline) {
  Communication found;
  for (std::uint32_t step = 0; step < timeline.steps.size(); ++step) {
    std::vector<CollectiveTime> times = collectives_of(timeline, step);
    if (times.empty()) continue;
    const std::vector<Gap> gaps = gaps_of(timeline, step);
    found.alone_ns += alone_ns(times, gaps);
    for (CollectiveTime& time : times) {
      find_exposed(time, gaps);
      found.add(time);
    }
  }
  return found;
}

void describe_communication(const Profile& profile, ParallelSection& section) {
  const Communication all = communication(profile);
  Communication between_ranks;
  for (const CollectiveTime& time : all.collectives) {
    const std::optional<Op> op = op_from_name(profile.kernels[time.kernel].op);
    const bool is_of_host = op && op_class(*op) == OpClass::transfer;
    if (!is_of_host) between_ranks.add(time);
  }
  if (between_ranks.collectives.empty()) return;
  const double ns_to_ms_of_step = 1e-6 / static_cast<double>(profile.steps.size());
  section.communication_ms = static_cast<double>(between_ranks.time_ns) * ns_to_ms_of_step;
  section.exposed_ms = static_cast<double>(between_ranks.exposed_ns) * ns_to_ms_of_step;
  section.hidden = between_ranks.hidden();
}

std::vector<ExposedRow> exposed_collectives(const DeviceTimeline& timeline, const Communication& communication) {
  std::map<std::uint32_t, ExposedRow> rows;                            // by group
  std::map<std::uint32_t, std::map<std::string, std::int64_t>> waits;  // exposed time by the kernel that waits
  for (const CollectiveTime& time : communication.collectives) {
    const DeviceEvent& event = timeline.events[time.kernel];
    ExposedRow& row = rows[event.group];
    row.what = timeline.place_of(event).op;
    ++row.calls;
    row.time_ns += time.end_ns - time.begin_ns;
    row.exposed_ns += time.exposed_ns;
    if (time.exposed_ns == 0) continue;
    waits[event.group][time.waiting ? node_name(timeline, timeline.events[*time.waiting]) : "the end of the step"] +=
        time.exposed_ns;
  }
  std::vector<ExposedRow> result;
  std::map<std::string, int> numbers;  // of the collectives of one op, in the order of the graph
  for (auto& [node, row] : rows) {
    row.what += fmt::format(" {}", ++numbers[row.what]);
    if (const auto found = waits.find(node); found != waits.end()) {
      row.waiting = std::ranges::max_element(found->second, {}, [](const auto& item) { return item.second; })->first;
    }
    result.push_back(std::move(row));
  }
  std::ranges::stable_sort(result, std::ranges::greater(), &ExposedRow::exposed_ns);
  return result;
}

std::vector<std::int64_t> clock_offsets(ProcessGroup& group) {
  constexpr int kBarriers = 15;
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(group.ranks()));
  const std::vector<std::string> on_host = group.all_gather(std::to_string(group.ranks_on_host()), "ranks of machines");
  if (on_host.front() == std::to_string(group.ranks())) return offsets;
  std::vector<std::vector<std::int64_t>> differences(offsets.size());
  for (int i = 0; i < kBarriers; ++i) {
    group.barrier();
    const std::vector<std::string> now = group.all_gather(std::to_string(steady_now_ns()), "clocks");
    for (std::size_t rank = 0; rank < now.size(); ++rank)
      differences[rank].push_back(std::stoll(now[rank]) - std::stoll(now[0]));
  }
  std::ranges::transform(differences, offsets.begin(), upper_median<std::int64_t>);
  return offsets;
}

std::vector<RankCommunication> compare_collectives(const std::vector<std::vector<RankSpan>>& spans_of_ranks) {
  std::vector<std::int64_t> last_begin_ns(spans_of_ranks.front().size(), INT64_MIN);
  for (const std::vector<RankSpan>& spans : spans_of_ranks) {
    for (std::size_t i = 0; i < std::min(last_begin_ns.size(), spans.size()); ++i)
      last_begin_ns[i] = std::max(last_begin_ns[i], spans[i].begin_ns);
  }
  std::vector<RankCommunication> ranks;
  for (const std::vector<RankSpan>& spans : spans_of_ranks) {
    RankCommunication& sum = ranks.emplace_back();
    for (std::size_t i = 0; i < std::min(last_begin_ns.size(), spans.size()); ++i) {
      sum.time_ns += spans[i].duration_ns;
      sum.late_ns += std::min(spans[i].duration_ns, last_begin_ns[i] - spans[i].begin_ns);
    }
  }
  return ranks;
}

void compare_ranks(Profile& profile, ProcessGroup& group) {
  const std::vector<std::int64_t> offsets = clock_offsets(group);
  const Communication mine = communication(profile);
  std::vector<std::vector<RankSpan>> spans_of_ranks;
  std::vector<std::int64_t> exposed_ns;
  const std::string text = dump_json(spans_of(profile, mine, offsets[static_cast<std::size_t>(group.rank())]));
  for (const std::string& rank : group.all_gather(text, "times of collectives")) {
    const Json json = parse_json(rank);
    exposed_ns.push_back(json["exposed_ns"]);
    std::vector<RankSpan>& spans = spans_of_ranks.emplace_back();
    for (const Json& span : json["spans"]) spans.push_back({span[0], span[1]});
  }
  profile.ranks = compare_collectives(spans_of_ranks);
  for (std::size_t i = 0; i < exposed_ns.size(); ++i) profile.ranks[i].exposed_ns = exposed_ns[i];
}

}  // namespace ridgepoint
