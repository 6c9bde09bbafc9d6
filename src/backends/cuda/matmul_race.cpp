#include "backends/cuda/matmul_race.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridgepoint::cuda {
namespace {

int launches_for(double wanted_ms, double launch_ms, int most) {
  const double launches = std::ceil(wanted_ms / launch_ms);
  return launches < most ? std::max(static_cast<int>(launches), 1) : most;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double MatmulRace::timed(std::size_t way, int launches) {
  const double ms = batch_ms_(way, launches);
  if (!std::isfinite(ms)) return INFINITY;
  spent_ms_ += ms;
  return ms;
}

void MatmulRace::screen_up_to(std::size_t count) {
  for (std::size_t way = screened_ms_.size(); way < count; ++way) {
    screened_ms_.push_back(INFINITY);
    if (spent_ms_ > rules_.budget_ms && leader()) continue;
    // The first launch loads code; it says only whether the way runs.
    if (!std::isfinite(timed(way, 1))) continue;
    if (screening_launches_ == 0) {
      screening_launches_ = launches_for(rules_.screening_ms, timed(way, 1), rules_.most_screening_launches);
    }
    screened_ms_[way] = timed(way, screening_launches_) / screening_launches_;
  }
}

std::optional<std::size_t> MatmulRace::leader() const {
  const auto fastest = std::min_element(screened_ms_.begin(), screened_ms_.end());
  if (fastest == screened_ms_.end() || !std::isfinite(*fastest)) return std::nullopt;
  return static_cast<std::size_t>(fastest - screened_ms_.begin());
}

double MatmulRace::leader_ms() const {
  const std::optional<std::size_t> way = leader();
  return way ? screened_ms_[*way] : INFINITY;
}

std::vector<std::size_t> MatmulRace::within_reach() const {
  std::vector<std::size_t> ways(screened_ms_.size());
  std::iota(ways.begin(), ways.end(), std::size_t{0});
  std::erase_if(ways, [&](std::size_t way) { return !(screened_ms_[way] <= rules_.within_reach * leader_ms()); });
  std::stable_sort(ways.begin(), ways.end(),
                   [&](std::size_t x, std::size_t y) { return screened_ms_[x] < screened_ms_[y]; });
  ways.resize(std::min(ways.size(), rules_.most_finalists));
  return ways;
}

int MatmulRace::final_rounds(std::size_t finalists, int launches) const {
  const double round_ms = static_cast<double>(finalists) * launches * leader_ms();
  const double left_ms = rules_.budget_ms - spent_ms_;
  if (left_ms >= rules_.rounds * round_ms) return rules_.rounds;
  return left_ms <= rules_.least_rounds * round_ms ? rules_.least_rounds : static_cast<int>(left_ms / round_ms);
}

std::optional<std::size_t> MatmulRace::winner() {
  finalists_.clear();
  if (!leader()) return std::nullopt;
  const std::vector<std::size_t> ways = within_reach();
  if (ways.size() == 1) {
    finalists_ = {{ways.front(), screened_ms_[ways.front()]}};
    return ways.front();
  }
  const int launches = launches_for(rules_.final_ms, leader_ms(), rules_.most_final_launches);
  const int rounds = final_rounds(ways.size(), launches);
  std::vector<std::vector<double>> times(ways.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < ways.size(); ++turn) {
      const std::size_t finalist = round % 2 == 0 ? turn : ways.size() - 1 - turn;
      times[finalist].push_back(timed(ways[finalist], launches) / launches);
    }
  }
  for (std::size_t i = 0; i < ways.size(); ++i) finalists_.push_back({ways[i], median(std::move(times[i]))});
  std::stable_sort(finalists_.begin(), finalists_.end(),
                   [](const Finalist& x, const Finalist& y) { return x.median_ms < y.median_ms; });
  if (!std::isfinite(finalists_.front().median_ms)) return std::nullopt;
  return finalists_.front().way;
}

}  // namespace ridgepoint::cuda
