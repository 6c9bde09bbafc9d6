#include "backends/cuda/products/choice/race.h"

#include <climits>
#include <cmath>
#include <numeric>

#include "core/median.h"

namespace ridgepoint::cuda {
namespace {

int launches_for(double wanted_ms, double launch_ms, int most) {
  const double launches = std::ceil(wanted_ms / launch_ms);
  return launches < most ? std::max(static_cast<int>(launches), 1) : most;
}

bool faster_on_the_card(const MatmulRace::Finalist& x, const MatmulRace::Finalist& y) { return x.card_ms < y.card_ms; }

}  // namespace

std::vector<MatmulRace::Finalist> MatmulRace::timed(std::span<const std::size_t> ways, const BatchLaunches& launches) {
  const std::vector<MatmulBatch> batches = run_batches_(ways, launches);
  std::vector<Finalist> times;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const bool runs = std::isfinite(batches[i].card_ms);
    const double card_ms = runs ? batches[i].card_ms / launches.timed : INFINITY;
    if (runs) spent_ms_ += card_ms * (launches.untimed + launches.timed);
    times.push_back({ways[i], card_ms, batches[i].host_ms / launches.timed});
  }
  return times;
}

void MatmulRace::screen_up_to(std::size_t count) {
  while (screened_.size() < count) {
    if (spent_ms_ > rules_.budget_ms && leader()) {
      screened_.resize(count, {.way = 0, .card_ms = INFINITY});
      return;
    }
    const std::size_t first = screened_.size();
    if (screening_launches_ == 0) {
      const double launch_ms = timed(std::span(&first, 1), {}).front().card_ms;
      if (!std::isfinite(launch_ms)) {
        screened_.push_back({.way = first, .card_ms = INFINITY});
        continue;
      }
      screening_launches_ = launches_for(rules_.screening_ms, launch_ms, rules_.most_screening_launches);
    }
    // Long batches are timed one at a time, to keep the budget.
    const bool is_long = spent_ms_ > rules_.budget_ms / static_cast<double>(rules_.screened_at_once);
    std::vector<std::size_t> ways(std::min(count - first, is_long ? 1 : rules_.screened_at_once));
    std::iota(ways.begin(), ways.end(), first);
    const std::vector<Finalist> times = timed(ways, {screening_launches_});
    screened_.insert(screened_.end(), times.begin(), times.end());
  }
}

std::optional<std::size_t> MatmulRace::leader() const {
  const auto fastest = std::min_element(screened_.begin(), screened_.end(), faster_on_the_card);
  if (fastest == screened_.end() || !std::isfinite(fastest->card_ms)) return std::nullopt;
  return static_cast<std::size_t>(fastest - screened_.begin());
}

double MatmulRace::leader_ms() const {
  const std::optional<std::size_t> way = leader();
  return way ? screened_[*way].card_ms : INFINITY;
}

std::vector<std::size_t> MatmulRace::within_reach() const {
  const double limit_ms = rules_.within_reach * leader_ms();
  std::vector<Finalist> near;
  for (const Finalist& way : screened_) {
    if (way.card_ms <= limit_ms) near.push_back(way);
  }
  rank(near);
  near.resize(std::min(near.size(), rules_.most_finalists));
  std::vector<std::size_t> ways;
  for (const Finalist& way : near) ways.push_back(way.way);
  return ways;
}

int MatmulRace::final_rounds(std::size_t finalists, int launches) const {
  const double round_ms = static_cast<double>(finalists) * launches * leader_ms();
  const double left_ms = rules_.budget_ms - spent_ms_;
  if (left_ms >= rules_.rounds * round_ms) return rules_.rounds;
  return left_ms <= rules_.least_rounds * round_ms ? rules_.least_rounds : static_cast<int>(left_ms / round_ms);
}

void MatmulRace::run_final(const std::vector<std::size_t>& ways) {
  const int launches = launches_for(rules_.final_ms, leader_ms(), rules_.most_final_launches);
  const int rounds = final_rounds(ways.size(), launches);
  std::vector<std::vector<double>> card_ms(ways.size()), host_ms(ways.size());
  for (int round = 0; round < rounds; ++round) {
    const bool backwards = round % 2 == 1;
    std::vector<std::size_t> order = ways;
    if (backwards) std::reverse(order.begin(), order.end());
    const std::vector<Finalist> times = timed(order, {launches});
    for (std::size_t turn = 0; turn < ways.size(); ++turn) {
      const std::size_t finalist = backwards ? ways.size() - 1 - turn : turn;
      card_ms[finalist].push_back(times[turn].card_ms);
      host_ms[finalist].push_back(times[turn].host_ms);
    }
  }
  for (std::size_t i = 0; i < ways.size(); ++i)
    finalists_.push_back({ways[i], upper_median(std::move(card_ms[i])), upper_median(std::move(host_ms[i]))});
}

// First the ones that cost about the least, then the others, both in the order of GPU time.
void MatmulRace::rank(std::vector<Finalist>& ways) const {
  double least_ms = INFINITY;
  for (const Finalist& way : ways) least_ms = std::min(least_ms, way.cost_ms());
  const auto dearer = std::stable_partition(
      ways.begin(), ways.end(), [&](const Finalist& way) { return way.cost_ms() <= rules_.same_cost * least_ms; });
  std::stable_sort(ways.begin(), dearer, faster_on_the_card);
  std::stable_sort(dearer, ways.end(), faster_on_the_card);
}

std::size_t MatmulRace::fastest_at_the_power_limit() {
  struct Runner {
    std::size_t way;
    double sum_ms = 0;
  };
  const double launch_ms = finalists_.front().card_ms;
  std::vector<Runner> left;
  for (const Finalist& finalist : finalists_) {
    if (finalist.card_ms <= rules_.limited_within_reach * launch_ms) left.push_back({finalist.way});
  }
  left.resize(std::min(left.size(), rules_.most_limited));
  const auto launches = [&](double wanted_ms) { return launches_for(wanted_ms, launch_ms, INT_MAX); };
  if (left.size() > 1) timed(std::span(&left.front().way, 1), {launches(rules_.warming_ms)});
  while (left.size() > 1) {
    for (Runner& runner : left) {
      const BatchLaunches batch{.timed = launches(rules_.limited_ms), .untimed = launches(rules_.settling_ms)};
      runner.sum_ms += timed(std::span(&runner.way, 1), batch).front().card_ms;
    }
    std::ranges::stable_sort(left, {}, &Runner::sum_ms);
    left.resize(left.size() / 2);
  }
  return left.front().way;
}

std::optional<std::size_t> MatmulRace::winner() {
  finalists_.clear();
  if (!leader()) return std::nullopt;
  const std::vector<std::size_t> ways = within_reach();
  if (ways.size() == 1) {
    finalists_ = {screened_[ways.front()]};
    return ways.front();
  }
  run_final(ways);
  rank(finalists_);
  if (!std::isfinite(finalists_.front().card_ms)) return std::nullopt;
  if (finalists_.front().card_ms < rules_.limited_from_ms || spent_ms_ > rules_.budget_ms)
    return finalists_.front().way;
  const auto best = std::ranges::find(finalists_, fastest_at_the_power_limit(), &Finalist::way);
  std::rotate(finalists_.begin(), best, best + 1);
  return finalists_.front().way;
}

}  // namespace ridgepoint::cuda
