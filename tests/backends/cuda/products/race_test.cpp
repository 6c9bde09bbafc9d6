// The race between candidates for a product, with simulated times.
#include "backends/cuda/products/choice/race.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "support/matchers.h"

namespace ridgepoint::cuda {
namespace {

constexpr double kGapMs = 0.005;  // between an event and the first or last launch of its batch

// A simulated GPU on which a launch of candidate i takes launch_ms[i], and the host host_ms[i] if given; it records its
// calls.
struct FakeTimes {
  std::vector<double> launch_ms = {};
  std::vector<double> host_ms = {};
  std::vector<double> limited_ms = {};  // of a launch of each behind untimed ones, if given
  double gap_ms = kGapMs;
  double noise = 0;     // of every batch, relative
  double outliers = 0;  // how many batches take five times as long
  double drift = 0;     // by how much each batch is slower than the one before, relative
  std::mt19937 random = std::mt19937(5);
  struct Batch {
    std::size_t way;
    int launches;
    int untimed;
  };
  std::vector<Batch> asked = {};
  std::size_t most_at_once = 0;
  double spent_ms = 0;

  std::vector<MatmulBatch> operator()(std::span<const std::size_t> ways, const BatchLaunches& launches) {
    most_at_once = std::max(most_at_once, ways.size());
    std::vector<MatmulBatch> batches;
    for (const std::size_t way : ways) {
      batches.push_back({card_ms(way, launches), host_ms.empty() ? 0 : launches.timed * host_ms[way]});
    }
    return batches;
  }

 private:
  double card_ms(std::size_t way, const BatchLaunches& launches) {
    asked.push_back({way, launches.timed, launches.untimed});
    const bool is_limited = launches.untimed > 0 && !limited_ms.empty();
    double ms = gap_ms + launches.timed * (is_limited ? limited_ms : launch_ms)[way];
    ms *= 1 + std::normal_distribution<double>(0, noise)(random);
    if (std::bernoulli_distribution(outliers)(random)) ms *= 5;
    ms *= std::pow(1 + drift, static_cast<double>(asked.size()));
    if (std::isfinite(ms)) spent_ms += ms;
    return ms;
  }
};

MatmulRace race_on(FakeTimes& times, const MatmulRaceRules& rules = {}) {
  return MatmulRace(
      [&times](std::span<const std::size_t> ways, const BatchLaunches& launches) { return times(ways, launches); },
      rules);
}

std::optional<std::size_t> winner_on(FakeTimes& times, const MatmulRaceRules& rules = {}) {
  MatmulRace race = race_on(times, rules);
  race.screen_up_to(times.launch_ms.size());
  return race.winner();
}

TEST(MatmulRace, the_gap_before_a_launch_does_not_hide_a_faster_way_that_comes_later) {
  // The launches of the first candidate take less than the gap: one launch of a later candidate plus the gap takes
  // longer than a launch of the first one in a long batch.
  for (const double first_ms : {0.0015, 0.003, 0.0055}) {
    FakeTimes times{.launch_ms = {first_ms, first_ms * 1.1, first_ms * 0.7, first_ms * 2}};
    EXPECT_EQ(winner_on(times), 2U) << first_ms;
  }
}

TEST(MatmulRace, finds_the_fastest_wherever_it_stands) {
  for (std::size_t fastest = 0; fastest < 40; ++fastest) {
    FakeTimes times{.launch_ms = std::vector<double>(40, 0.004)};
    times.launch_ms[fastest] = 0.0035;
    EXPECT_EQ(winner_on(times), fastest);
  }
}

TEST(MatmulRace, compares_batches_of_equally_many_launches) {
  FakeTimes times{.launch_ms = {0.004, 0.0031, 0.0035, 0.02, 0.0033}};
  MatmulRace race = race_on(times);
  race.screen_up_to(5);
  const std::size_t screenings = times.asked.size();
  race.winner();
  std::map<std::size_t, std::set<int>> screened;
  std::set<int> in_the_final;
  std::set<std::size_t> finalists;
  for (std::size_t i = 0; i < times.asked.size(); ++i) {
    const auto& [way, launches, untimed] = times.asked[i];
    if (i < screenings && launches > 1) screened[way].insert(launches);
    if (i >= screenings) {
      in_the_final.insert(launches);
      finalists.insert(way);
    }
  }
  EXPECT_THAT(screened, SizeIs(5));
  for (const auto& [way, launches] : screened) EXPECT_EQ(launches, screened.begin()->second) << way;
  EXPECT_THAT(in_the_final, SizeIs(1));
  EXPECT_EQ(finalists, (std::set<std::size_t>{0, 1, 2, 4}));
}

TEST(MatmulRace, a_batch_of_the_final_is_far_longer_than_events_resolve) {
  constexpr double kResolutionMs = 0.0005;
  for (const double ms : {0.0012, 0.005, 0.05, 0.3, 4.0}) {
    FakeTimes times{.launch_ms = {ms, 1.01 * ms}};
    winner_on(times);
    EXPECT_GE(times.asked.back().launches * ms, 50 * kResolutionMs) << ms;
  }
}

TEST(MatmulRace, noise_and_outliers_cost_a_few_per_cent_at_most) {
  std::mt19937 random(3);
  std::vector<double> of_the_best;  // of the chosen candidate
  for (int i = 0; i < 200; ++i) {
    FakeTimes times{.noise = 0.03, .outliers = 0.02, .random = std::mt19937(static_cast<unsigned>(i))};
    for (int way = 0; way < 200; ++way) {
      times.launch_ms.push_back(std::uniform_real_distribution<double>(0.002, 0.012)(random));
    }
    const double chosen = times.launch_ms[winner_on(times).value()];
    of_the_best.push_back(chosen / *std::min_element(times.launch_ms.begin(), times.launch_ms.end()));
  }
  std::sort(of_the_best.begin(), of_the_best.end());
  EXPECT_LT(of_the_best[180], 1.03);
  EXPECT_LT(of_the_best.back(), 1.15) << "an outlier may cost the best its place in the final, not the next ones too";
}

TEST(MatmulRace, a_clock_that_slows_down_favours_no_way) {
  for (const std::size_t faster : {0U, 1U}) {
    FakeTimes times{.launch_ms = {0.01, 0.01}, .drift = 0.004};
    times.launch_ms[faster] = 0.0098;
    EXPECT_EQ(winner_on(times), faster);
  }
}

// Two kernels for one product, as with split-K: a little faster on the GPU, and 1.5 times as long on the host.
TEST(MatmulRace, a_way_that_holds_up_the_host_does_not_win) {
  FakeTimes small{.launch_ms = {0.0069, 0.0066, 0.0067}, .host_ms = {0.0065, 0.0095, 0.0098}};
  EXPECT_EQ(winner_on(small), 0U);
  FakeTimes large{.launch_ms = {0.069, 0.066, 0.067}, .host_ms = {0.0065, 0.0095, 0.0098}};
  EXPECT_EQ(winner_on(large), 1U) << "the card takes longer than the host";
  FakeTimes tiny{.launch_ms = {0.0036, 0.0034, 0.0035}, .host_ms = {0.0065, 0.0067, 0.0064}};
  EXPECT_EQ(winner_on(tiny), 1U) << "all cost about the same";
}

TEST(MatmulRace, ways_that_hold_up_the_host_do_not_crowd_out_one_that_does_not) {
  FakeTimes times{
      .launch_ms = std::vector<double>(20, 0.006), .host_ms = std::vector<double>(20, 0.0098), .gap_ms = 0.001};
  times.launch_ms[17] = 0.0072;
  times.host_ms[17] = 0.0065;
  EXPECT_EQ(winner_on(times), 17U);
}

TEST(MatmulRace, queues_many_batches_at_once_but_not_long_ones) {
  FakeTimes short_ones{.launch_ms = std::vector<double>(200, 0.004)};
  winner_on(short_ones);
  EXPECT_EQ(short_ones.most_at_once, 32U);
  FakeTimes long_ones{.launch_ms = std::vector<double>(200, 80.0)};
  long_ones.launch_ms[3] = 8;
  EXPECT_EQ(winner_on(long_ones), 3U);
  EXPECT_EQ(long_ones.most_at_once, 1U);
}

TEST(MatmulRace, what_does_not_run_does_not_win) {
  FakeTimes times{.launch_ms = {INFINITY, 0.01, INFINITY}};
  EXPECT_EQ(winner_on(times), 1U);
  FakeTimes none{.launch_ms = {INFINITY, NAN}};
  EXPECT_EQ(winner_on(none), std::nullopt);
  FakeTimes nothing;
  EXPECT_EQ(winner_on(nothing), std::nullopt);
}

TEST(MatmulRace, what_is_screened_later_meets_what_was_screened_before) {
  FakeTimes times{.launch_ms = {0.004, 0.0032, 0.003}};
  MatmulRace race = race_on(times);
  race.screen_up_to(1);
  EXPECT_EQ(race.leader(), 0U);
  race.screen_up_to(3);
  EXPECT_EQ(race.leader(), 2U);
  EXPECT_EQ(race.winner(), 2U);
  ASSERT_THAT(race.finalists(), SizeIs(3));
  EXPECT_EQ(race.finalists()[0].way, 2U);
  EXPECT_EQ(race.finalists()[2].way, 0U);
  EXPECT_NEAR(race.finalists()[0].card_ms, 0.003, 0.0005);
}

// Batches behind untimed launches, by way.
std::map<std::size_t, int> limited_batches(const FakeTimes& times) {
  std::map<std::size_t, int> batches;
  for (const FakeTimes::Batch& batch : times.asked) batches[batch.way] += batch.untimed > 0;
  return batches;
}

TEST(MatmulRace, what_takes_least_at_the_power_limit_wins_among_long_launches) {
  FakeTimes times{.launch_ms = {1.00, 1.04, 1.08, 1.12, 1.30, 1.02},
                  .limited_ms = {1.20, 1.21, 1.12, 1.00, 1.00, 1.13}};
  MatmulRace race = race_on(times);
  race.screen_up_to(6);
  EXPECT_EQ(race.winner(), 2U) << "3 and 4 are out of reach";
  EXPECT_EQ(race.finalists().front().way, 2U);
  EXPECT_THAT(race.finalists(), SizeIs(6));
  EXPECT_EQ(limited_batches(times), (std::map<std::size_t, int>{{0, 1}, {1, 1}, {2, 2}, {3, 0}, {4, 0}, {5, 2}}));
}

TEST(MatmulRace, brings_the_gpu_to_its_power_limit_and_lets_the_clock_settle) {
  const MatmulRaceRules rules;
  FakeTimes times{.launch_ms = {0.5, 0.51}, .limited_ms = {0.6, 0.6}};
  winner_on(times);
  const auto first = std::ranges::find_if(times.asked, [](const FakeTimes::Batch& batch) { return batch.untimed > 0; });
  ASSERT_NE(first, times.asked.end());
  EXPECT_GE((first - 1)->launches * 0.51, rules.warming_ms);
  EXPECT_GE(first->untimed * 0.51, rules.settling_ms);
  EXPECT_GE(first->launches * 0.51, rules.limited_ms);
}

TEST(MatmulRace, short_launches_do_not_meet_at_the_power_limit) {
  FakeTimes times{.launch_ms = {0.20, 0.21}, .limited_ms = {0.3, 0.1}};
  EXPECT_EQ(winner_on(times), 0U);
  EXPECT_EQ(limited_batches(times), (std::map<std::size_t, int>{{0, 0}, {1, 0}}));
}

TEST(MatmulRace, takes_a_bounded_time) {
  MatmulRaceRules rules;
  FakeTimes short_ones{.launch_ms = std::vector<double>(1000, 0.003)};
  winner_on(short_ones, rules);
  EXPECT_LT(short_ones.spent_ms, 100);
  FakeTimes long_ones{.launch_ms = std::vector<double>(100, 150.0)};
  EXPECT_TRUE(winner_on(long_ones, rules).has_value());
  // Work that has begun is completed: one candidate's screening, and the minimum of rounds of a final.
  const double final_ms = static_cast<double>(rules.most_finalists) * rules.least_rounds * 150;
  FakeTimes at_the_limit{.launch_ms = std::vector<double>(40, 1.0)};
  winner_on(at_the_limit, rules);
  EXPECT_LT(at_the_limit.spent_ms, 900);
  EXPECT_LT(long_ones.spent_ms, rules.budget_ms + 3 * 150 + final_ms + 10);
}

TEST(MatmulRace, one_within_reach_needs_no_final) {
  FakeTimes times{.launch_ms = {1.0, 2.0, 3.0}};
  MatmulRace race = race_on(times);
  race.screen_up_to(3);
  const std::size_t screenings = times.asked.size();
  EXPECT_EQ(race.winner(), 0U);
  EXPECT_EQ(times.asked.size(), screenings);
  EXPECT_THAT(race.finalists(), SizeIs(1));
}

}  // namespace
}  // namespace ridgepoint::cuda
