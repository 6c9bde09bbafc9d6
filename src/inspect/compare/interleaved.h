// Runs configurations side by side in one process. Iterations alternate in rounds, so a change in the speed of the
// machine changes the times of all configurations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "run/session/session.h"

namespace ridgepoint {

// The order of the configurations in a round, forwards and backwards by turns, so that neither a drift from round to
// round nor a place in the round favours one of them.
std::vector<std::size_t> order_of_round(std::int64_t round, std::size_t configurations);

struct InterleavedRun {
  std::vector<Record> records;  // in the order of the configurations; sample i of all is of round i
  std::int64_t rounds = 0;      // finished ones; fewer than were asked for if the watcher stopped the run
};

// Makes all programs, which stay in memory together, warms each of them up, and then runs config.steps rounds. In a
// round, in the order of order_of_round(), each configuration runs an untimed iteration, so that the caches hold its
// own data, and a timed one. All configurations have the same device, threads and steps. A configuration that fails has
// the status and leaves the rounds to the others. Without a finished round there are no records. On several ranks, all
// call this with the same configurations, the times are those of the rank, and all finish the same rounds. Throws
// nothing but LostRanks, where an iteration fails on one of them.
InterleavedRun measure_interleaved(std::span<const RunConfig> configs, const StepWatcher& watch = {});

}  // namespace ridgepoint
