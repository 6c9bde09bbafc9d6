// How the kernels of attention for Hopper divide a problem among the multiprocessors of a card: pure functions of its
// sizes and their number, so that a plan knows the workspace. hopper_variants.h has the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {

struct HopperProblem {
  std::int64_t matrices = 0;  // heads of q, of the whole batch
  std::int64_t groups = 0;    // of them, that share k and v and add their gradients; otherwise one each
  std::int64_t queries = 0, keys = 0;
  bool causal = false;
};

// Steps of keys of all tiles of a head of q.
inline std::int64_t forward_steps(const HopperForwardTiling& tiling, const HopperProblem& problem) {
  std::int64_t steps = 0;
  for (std::int64_t end = tiling.rows; end < problem.queries + tiling.rows; end += tiling.rows)
    steps += ceil_divide(problem.causal ? std::min(problem.keys, end) : problem.keys, tiling.keys);
  return steps;
}

// Whether all tiles run at once.
inline bool has_few_tiles(const HopperForwardTiling& tiling, const HopperProblem& problem, int multiprocessors) {
  return problem.matrices * ceil_divide(problem.queries, tiling.rows) <= multiprocessors;
}

// Whether tiles are worth dividing: they would otherwise take longer, by more than a combination of parts costs, than
// their steps take when every multiprocessor has as many.
inline bool suits_division(const HopperForwardTiling& tiling, const HopperProblem& problem, int multiprocessors) {
  if (multiprocessors == 0) return false;
  constexpr double kLeastGain = 1.25;
  constexpr double kStepsOfCombination = 6;
  const std::int64_t tiles = problem.matrices * ceil_divide(problem.queries, tiling.rows);
  const std::int64_t longest = ceil_divide(problem.keys, tiling.keys);
  const std::int64_t waves = problem.causal ? 1 : ceil_divide(tiles, multiprocessors);
  const auto undivided = static_cast<double>(waves * longest);
  const double divided = static_cast<double>(problem.matrices * forward_steps(tiling, problem)) / multiprocessors;
  return undivided > kLeastGain * divided && undivided > divided + kStepsOfCombination;
}

// The heads of q of a set: tiles are numbered set after set and, in each, those that see most keys first, over all of
// its heads. With a causal mask the tiles of several heads are needed for the multiprocessors to end at the same time;
// what they read should stay in the second-level cache. A divisor of the number of heads. Streams have one head in a
// set, and the last heads together.
inline std::int64_t matrices_of_set(const HopperForwardTiling& tiling, const HopperProblem& problem) {
  constexpr std::int64_t kCachedBytes = 40'000'000;  // of the 50 MB of the cache
  constexpr std::int64_t kElementBytes = 2 + 2;      // of k and v
  if (!problem.causal || tiling.divided || tiling.streams > 1) return 1;
  const std::int64_t most = kCachedBytes / (problem.keys * tiling.panels() * 64 * kElementBytes);
  std::int64_t set = std::clamp<std::int64_t>(most, 1, problem.matrices);
  while (problem.matrices % set != 0) --set;
  return set;
}

// Thread blocks that share the steps of all tiles evenly. Each leaves at most two parts of tiles.
inline std::int64_t sharing_blocks(const HopperForwardTiling& tiling, const HopperProblem& problem,
                                   int multiprocessors) {
  return std::min<std::int64_t>(multiprocessors, problem.matrices * forward_steps(tiling, problem));
}
inline constexpr std::int64_t kPartsOfBlock = 2;

// Steps of queries of a block of keys, and of all blocks of a head of k.
inline std::int64_t backward_steps(const HopperBackwardTiling& tiling, const HopperProblem& problem,
                                   std::int64_t block) {
  const std::int64_t first = problem.causal ? block * tiling.keys / tiling.rows : 0;
  return ceil_divide(problem.queries, tiling.rows) - first;
}
inline std::int64_t backward_steps(const HopperBackwardTiling& tiling, const HopperProblem& problem) {
  std::int64_t steps = 0;
  for (std::int64_t block = 0; block < ceil_divide(problem.keys, tiling.keys); ++block)
    steps += backward_steps(tiling, problem, block);
  return steps;
}

// The heads of k of a set: blocks of keys are numbered set after set and, in each, with keys as the slow index. Many
// heads at a time need few waits of one block for the previous one; few keep what a set reads and adds to in the
// second-level cache. Measured: with a causal mask, whose blocks have unequal lengths, waits cost more; in long
// sequences of wide heads waits cost least, because blocks of a head begin only one step after one another, and what a
// head reads takes most of the cache.
inline std::int64_t heads_of_set(const HopperBackwardTiling& tiling, const HopperProblem& problem,
                                 int multiprocessors) {
  constexpr double kCachedBytes = 40e6;     // of the 50 MB of the cache
  constexpr int kElementBytes = 2 + 2 + 4;  // of q, of the gradient of o, and of the sums of dq
  const double heads = static_cast<double>(problem.matrices) / static_cast<double>(problem.groups);
  const double bytes = static_cast<double>(problem.queries) * tiling.padded_width() * kElementBytes * heads;
  const std::int64_t steps = tiling.padded_width() > 64 ? ceil_divide(problem.queries, tiling.rows) : 0;
  // Of keys of one head, that run at a time.
  const std::int64_t blocks =
      std::max<std::int64_t>(problem.causal ? 4 : 8 * 128 / tiling.keys, steps * tiling.padded_width() / 1024);
  const double most = std::max(1, multiprocessors);
  const double wanted = std::clamp(kCachedBytes / bytes, std::max(1.0, most / static_cast<double>(blocks)), most);
  const auto sets = std::max<std::int64_t>(1, std::llround(static_cast<double>(problem.groups) / wanted));
  return ceil_divide(problem.groups, sets);
}

// How the heads of q that share k and v are taken. A thread block takes those of a part one after another, for one
// block of keys; parts add up their gradients of k and v in order.
struct SharedHeads {
  std::int64_t parts = 1;
  std::int64_t heads_of_part = 1;
};

// The parts into which those heads have to be divided, so that a block of keys does not take much longer than a
// multiprocessor has work.
inline std::int64_t wanted_parts(const HopperBackwardTiling& tiling, const HopperProblem& problem,
                                 int multiprocessors) {
  constexpr double kMostOfMean = 1.25;
  const std::int64_t heads = problem.matrices / problem.groups;
  const auto longest = static_cast<double>(heads * backward_steps(tiling, problem, 0));
  const auto all = static_cast<double>(problem.matrices * backward_steps(tiling, problem));
  const double parts = longest * std::max(1, multiprocessors) / (kMostOfMean * std::max(all, 1.0));
  return std::clamp<std::int64_t>(std::llround(std::ceil(parts)), 1, heads);
}

inline SharedHeads share_heads(const HopperBackwardTiling& tiling, const HopperProblem& problem, int multiprocessors) {
  const std::int64_t heads = problem.matrices / problem.groups;
  const std::int64_t wanted = tiling.adds_parts() ? wanted_parts(tiling, problem, multiprocessors) : 1;
  const std::int64_t heads_of_part = ceil_divide(heads, wanted);
  return {ceil_divide(heads, heads_of_part), heads_of_part};
}

// Where blocks of keys are divided: a thread block takes up to `chunk` steps of one at a time, and block n adds to
// slice n % slices of the sums of dq, in the order of the blocks of a slice.
struct BackwardDivision {
  std::int64_t chunk = 1;
  std::int64_t slices = 1;
};

inline BackwardDivision divide_backward(const HopperBackwardTiling& tiling, const HopperProblem& problem,
                                        int multiprocessors) {
  constexpr std::int64_t kMostSlices = 8;
  const std::int64_t steps = ceil_divide(problem.queries, tiling.rows);
  const std::int64_t all = problem.groups * backward_steps(tiling, problem);
  const std::int64_t each = ceil_divide(all, std::max(1, multiprocessors));
  const std::int64_t chunks = std::max<std::int64_t>(1, (2 * steps + each) / (2 * each));
  BackwardDivision division;
  division.chunk = ceil_divide(steps, chunks);
  // Blocks of keys that run at a time and see the same queries. One that follows another in its slice begins a step
  // later; an eighth of a chunk may pass so.
  const std::int64_t running = ceil_divide(multiprocessors, problem.groups * ceil_divide(steps, division.chunk));
  division.slices = std::clamp<std::int64_t>(ceil_divide(running, ceil_divide(division.chunk, 8)), 1, kMostSlices);
  division.slices = std::min(division.slices, ceil_divide(problem.keys, tiling.keys));
  return division;
}

// Whether blocks of keys of one head that run at a time, each a step behind the previous one, would wait for half of
// the time that a multiprocessor has work.
inline bool suits_division(const HopperBackwardTiling& tiling, const HopperProblem& problem, int multiprocessors) {
  const std::int64_t all = problem.matrices * backward_steps(tiling, problem);
  return 2 * static_cast<std::int64_t>(multiprocessors) * multiprocessors >= problem.groups * all;
}

}  // namespace ridgepoint::cuda
