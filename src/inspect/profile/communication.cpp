#include "inspect/profile/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/text/json.h"
#include "runtime/device/communicator.h"
#include "runtime/device/host_activity.h"

namespace ridgepoint {
namespace {

bool is_communication(const KernelRecord& kernel) { return kernel.kernel_class == KernelClass::communication; }

// Not what marks on a GPU that it runs.
bool is_collective(const KernelRecord& kernel) { return is_communication(kernel) && kernel.kind != ActivityKind::fill; }

// A time in which no kernel but collectives ran.
struct Gap {
  std::int64_t begin_ns, end_ns;
  std::optional<std::size_t> next;  // the kernel after it; empty at the end of a step
};

std::vector<Gap> gaps_of(const Profile& profile, std::uint32_t step) {
  std::vector<Gap> gaps;
  std::int64_t until_ns = profile.steps[step].begin_ns;
  for (std::size_t i = 0; i < profile.kernels.size(); ++i) {
    const KernelRecord& kernel = profile.kernels[i];
    if (kernel.step != step || is_communication(kernel)) continue;
    if (kernel.start_ns > until_ns) gaps.push_back({until_ns, kernel.start_ns, i});
    until_ns = std::max(until_ns, kernel.end_ns());
  }
  gaps.push_back({until_ns, std::max(until_ns, profile.steps[step].end_ns), std::nullopt});
  return gaps;
}

// The collectives of a step, in order of start.
std::vector<CollectiveTime> collectives_of(const Profile& profile, std::uint32_t step) {
  std::vector<CollectiveTime> times;
  std::map<std::uint32_t, std::size_t> by_node;
  for (std::size_t i = 0; i < profile.kernels.size(); ++i) {
    const KernelRecord& kernel = profile.kernels[i];
    if (kernel.step != step || !is_collective(kernel)) continue;
    const auto [found, is_new] = by_node.emplace(kernel.node, times.size());
    if (is_new) times.push_back({.kernel = i, .begin_ns = kernel.start_ns, .end_ns = kernel.end_ns(), .waiting = {}});
    CollectiveTime& time = times[found->second];
    time.end_ns = std::max(time.end_ns, kernel.end_ns());
  }
  return times;
}

// A gap in which a collective does not end has another cause: the host was late.
void find_exposed(CollectiveTime& time, const std::vector<Gap>& gaps) {
  const auto gap =
      std::ranges::find_if(gaps, [&](const Gap& g) { return g.begin_ns < time.end_ns && time.end_ns <= g.end_ns; });
  if (gap == gaps.end()) return;
  time.exposed_ns = time.end_ns - std::max(gap->begin_ns, time.begin_ns);
  time.waiting = gap->next;
}

std::string node_name(const KernelRecord& kernel) {
  return kernel.scope.empty() ? kernel.op : kernel.scope + ' ' + kernel.op;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// What a rank tells the others: when each collective began and ended, by the clock of rank 0.
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

Communication communication(const Profile& profile) {
  Communication found;
  for (std::uint32_t step = 0; step < profile.steps.size(); ++step) {
    const std::vector<Gap> gaps = gaps_of(profile, step);
    for (CollectiveTime& time : collectives_of(profile, step)) {
      find_exposed(time, gaps);
      found.time_ns += time.end_ns - time.begin_ns;
      found.exposed_ns += time.exposed_ns;
      found.collectives.push_back(time);
    }
  }
  return found;
}

void describe_communication(const Profile& profile, ParallelSection& section) {
  const Communication found = communication(profile);
  if (found.collectives.empty()) return;
  const double ns_to_ms_of_step = 1e-6 / static_cast<double>(profile.steps.size());
  section.communication_ms = static_cast<double>(found.time_ns) * ns_to_ms_of_step;
  section.exposed_ms = static_cast<double>(found.exposed_ns) * ns_to_ms_of_step;
  section.hidden = found.hidden();
}

std::vector<ExposedRow> exposed_collectives(const Profile& profile) {
  std::map<std::uint32_t, ExposedRow> rows;                            // by node
  std::map<std::uint32_t, std::map<std::string, std::int64_t>> waits;  // exposed time by the kernel that waits
  for (const CollectiveTime& time : communication(profile).collectives) {
    const KernelRecord& kernel = profile.kernels[time.kernel];
    ExposedRow& row = rows[kernel.node];
    row.what = kernel.op;
    ++row.calls;
    row.time_ns += time.end_ns - time.begin_ns;
    row.exposed_ns += time.exposed_ns;
    if (time.exposed_ns == 0) continue;
    waits[kernel.node][time.waiting ? node_name(profile.kernels[*time.waiting]) : "the end of the step"] +=
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
  std::ranges::transform(differences, offsets.begin(), median);
  return offsets;
}

void compare_ranks(Profile& profile, ProcessGroup& group) {
  const std::vector<std::int64_t> offsets = clock_offsets(group);
  const Communication mine = communication(profile);
  std::vector<Json> all;
  const std::string spans = dump_json(spans_of(profile, mine, offsets[static_cast<std::size_t>(group.rank())]));
  for (const std::string& text : group.all_gather(spans, "times of collectives")) all.push_back(parse_json(text));
  // A collective goes on when its last rank has come.
  std::vector<std::int64_t> last_begin_ns(all.front()["spans"].size(), INT64_MIN);
  for (const Json& rank : all) {
    for (std::size_t i = 0; i < std::min(last_begin_ns.size(), rank["spans"].size()); ++i)
      last_begin_ns[i] = std::max(last_begin_ns[i], rank["spans"][i][0].get<std::int64_t>());
  }
  profile.ranks.clear();
  for (const Json& rank : all) {
    RankCommunication& sum = profile.ranks.emplace_back();
    sum.exposed_ns = rank["exposed_ns"];
    for (std::size_t i = 0; i < std::min(last_begin_ns.size(), rank["spans"].size()); ++i) {
      const std::int64_t duration_ns = rank["spans"][i][1];
      sum.time_ns += duration_ns;
      sum.late_ns += std::min(duration_ns, last_begin_ns[i] - rank["spans"][i][0].get<std::int64_t>());
    }
  }
}

}  // namespace ridgepoint
