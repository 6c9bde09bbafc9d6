#include "plan/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/program/cpu_time.h"

namespace ridgepoint {
namespace {

struct Kind {
  std::uint32_t blocks, steps;
  bool are_powers;   // sizes: powers of two, or anything
  bool is_training;  // lifetimes: forward results that backward reads in the opposite order, or any
};

std::vector<Lifetime> random_lifetimes(std::uint64_t seed, const Kind& kind) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  std::vector<Lifetime> lifetimes;
  for (std::uint32_t i = 0; i < kind.blocks; ++i) {
    Lifetime lifetime;
    lifetime.bytes = 512 * (kind.are_powers ? std::uint64_t{1} << below(12) : below(5000));
    lifetime.first = static_cast<std::uint32_t>(below(kind.steps));
    const bool is_saved = kind.is_training ? lifetime.first < kind.steps / 2 && below(3) == 0 : below(8) == 0;
    lifetime.last = lifetime.first + static_cast<std::uint32_t>(below(5));
    if (is_saved) lifetime.last = kind.is_training ? kind.steps - lifetime.first : lifetime.first + kind.steps;
    lifetime.last = std::clamp(lifetime.last, lifetime.first, kind.steps);
    if (below(50) == 0) lifetime.first = 0, lifetime.last = kind.steps;
    lifetimes.push_back(lifetime);
  }
  return lifetimes;
}

// The blocks of a packing that share an address at the same step, or lie outside; empty for a good packing.
std::string conflict(std::span<const Lifetime> lifetimes, const Packing& packing) {
  std::vector<std::uint32_t> by_offset;
  for (std::uint32_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].bytes == 0) continue;
    if (packing.offsets[i] % 512 != 0) return "block " + std::to_string(i) + " is not aligned";
    if (packing.offsets[i] + lifetimes[i].bytes > packing.bytes) return "block " + std::to_string(i) + " is outside";
    by_offset.push_back(i);
  }
  std::ranges::sort(by_offset, {}, [&](std::uint32_t i) { return packing.offsets[i]; });
  for (std::size_t a = 0; a < by_offset.size(); ++a) {
    const std::uint32_t i = by_offset[a];
    const std::size_t end = packing.offsets[i] + lifetimes[i].bytes;
    for (std::size_t b = a + 1; b < by_offset.size() && packing.offsets[by_offset[b]] < end; ++b) {
      if (lifetimes[i].overlaps(lifetimes[by_offset[b]]))
        return "blocks " + std::to_string(i) + " and " + std::to_string(by_offset[b]) + " overlap";
    }
  }
  return "";
}

TEST(Pack, gives_no_two_live_blocks_one_address) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Kind kind{static_cast<std::uint32_t>(1 + seed % 150), static_cast<std::uint32_t>(1 + seed * 7 % 90),
                    seed % 2 == 0, seed % 3 == 0};
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed, kind);
    const Packing packing = pack(lifetimes);
    ASSERT_EQ(conflict(lifetimes, packing), "") << "seed " << seed;
    EXPECT_GE(packing.bytes, liveness_lower_bound(lifetimes));
  }
}

TEST(Pack, is_within_three_percent_of_the_lower_bound) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed, {400, 300, seed % 2 == 0, seed % 4 < 2});
    const Packing packing = pack(lifetimes);
    const auto bound = static_cast<double>(liveness_lower_bound(lifetimes));
    EXPECT_LE(static_cast<double>(packing.bytes), 1.03 * bound) << "seed " << seed;
  }
}

TEST(Pack, is_the_same_each_time) {
  const std::vector<Lifetime> lifetimes = random_lifetimes(5, {500, 200, false, false});
  EXPECT_EQ(pack(lifetimes).offsets, pack(lifetimes).offsets);
}

TEST(Pack, of_twenty_thousand_blocks_takes_seconds_at_most) {
  for (const bool is_training : {false, true}) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(9, {20'000, 20'000, false, is_training});
    const double before = thread_seconds();
    const Packing packing = pack(lifetimes);
    EXPECT_LT(thread_seconds() - before, 10.0) << "a bound for slow machines and sanitizers";
    EXPECT_EQ(conflict(lifetimes, packing), "");
  }
}

// First fit in order of size leaves a gap here; the search has to find the order that does not.
TEST(Pack, finds_the_packing_without_gaps_of_a_small_puzzle) {
  const std::vector<Lifetime> lifetimes = {{512 * 3, 0, 1}, {512 * 2, 1, 2}, {512 * 3, 2, 3}, {512 * 2, 3, 4},
                                           {512 * 2, 0, 0}, {512 * 2, 4, 4}, {512, 4, 4}};
  EXPECT_EQ(pack(lifetimes).bytes, liveness_lower_bound(lifetimes));
}

TEST(Pack, of_nothing_is_empty) {
  EXPECT_EQ(pack({}).bytes, 0u);
  EXPECT_EQ(pack(std::vector<Lifetime>{{0, 0, 0}, {0, 3, 5}}).bytes, 0u);
}

}  // namespace
}  // namespace ridgepoint
