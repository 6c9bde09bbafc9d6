#include "measure/session/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/units.h"
#include "ops/collectives.h"
#include "ridgepoint/error.h"
#include "runtime/process_group.h"

namespace ridgepoint {
namespace {

double median_alone(RunConfig config, const StepWatcher& watch) {
  config.compile.parallel = {};
  config.group = nullptr;
  Record record;  // not read: only the times are
  Session session(config, watch, record);
  const ProgramPlan plan = session.plan();
  Program program = session.make(plan);
  session.initialise(program);
  const std::unique_ptr<DeviceTimer> timer = session.device()->make_timer();
  return describe(session.iterate([&](std::int64_t) { return Session::run_once(program, *timer); }).host_ms).median;
}

}  // namespace

void describe_ranks(const ParallelOptions& options, const Graph& compiled, ParallelSection& section) {
  if (!options.is_parallel()) return;
  section.data = options.data;
  section.shard = name(options.shard);
  if (options.reduce_dtype) section.reduce_dtype = name(*options.reduce_dtype);
  section.bucket_bytes = options.bucket_bytes;
  std::int64_t collectives = 0;
  double bytes = 0;
  for (const NodeId id : compiled.order()) {
    const Node& node = compiled.node(id);
    if (op_class(node.op) != OpClass::collective) continue;
    ++collectives;
    bytes += wire_bytes(compiled, node);
  }
  section.collectives = collectives;
  section.wire_bytes = std::llround(bytes);
}

void describe_choice(const ParallelChoice& choice, std::optional<std::int64_t> capacity_bytes,
                     ParallelSection& section) {
  if (choice.reason.empty()) return;
  section.choice = choice.reason;
  section.tried_capacity_bytes = capacity_bytes;
  for (const ParallelTrial& trial : choice.trials) {
    section.tried_shard.emplace_back(name(trial.shard));
    section.tried_bucket_bytes.push_back(trial.bucket_bytes);
    section.tried_peak_reserved.push_back(static_cast<std::int64_t>(trial.reserved_bytes));
    section.tried_ms.push_back(trial.ms.value_or(Statistics::kUnknown));
  }
}

void require_same_choice(ProcessGroup* group, const ParallelOptions& options) {
  if (group == nullptr) return;
  const std::vector<std::string> all =
      group->all_gather(fmt::format("--shard {} with buckets of {}", name(options.shard),
                                    format_bytes(static_cast<std::uint64_t>(options.bucket_bytes))));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error(fmt::format("the devices of the ranks differ: rank 0 chose {}, and rank {} {}; give --shard and bucket",
                            all[0], rank, all[rank]),
                ErrorKind::usage);
  }
}

std::string problem_of_ranks(ProcessGroup* group, const std::string& mine) {
  if (group == nullptr) return mine;
  const std::vector<std::string> all = group->all_gather(mine);
  const auto found = std::ranges::find_if_not(all, &std::string::empty);
  return found == all.end() ? "" : *found;
}

void gather_times(ProcessGroup& group, double median_ms, ParallelSection& section) {
  for (const std::string& text : group.all_gather(fmt::format("{}", median_ms)))
    section.rank_ms.push_back(std::stod(text));
  const auto [fastest, slowest] = std::ranges::minmax(section.rank_ms);
  section.slowest_ms = slowest;
  section.spread = 1 - fastest / slowest;
}

void time_alone(const RunConfig& config, const StepWatcher& watch, ParallelSection& section) {
  std::string problem;
  if (config.group->rank() == 0) {
    try {
      section.alone_ms = median_alone(config, watch);
    } catch (const OutOfMemory&) {  // only the parts of several ranks fit
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  problem = config.group->all_gather(problem).front();
  if (!problem.empty()) throw Error("one rank alone: " + problem);
  if (section.alone_ms) section.efficiency = *section.alone_ms / *section.slowest_ms;
}

}  // namespace ridgepoint
