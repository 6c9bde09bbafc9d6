// Finds the fastest of several ways to compute one product, by times that can be compared: all ways are timed with the
// same number of launches queued behind each other. Needs no card: a function times batches.
//
// Every way is screened by one batch. Those within reach of the fastest meet in the final: in each round every finalist
// runs one batch, in turns, so that a clock that drifts touches all of them alike, and medians decide. A launch costs
// the time of the card or that of the host, whichever is longer: a way that splits K into two kernels may be fast on
// the card and hold up the host. Among ways that cost about the same, the card's time decides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace ridgepoint::cuda {

// The time that the launches of one batch take together: the card to compute them, infinite when they do not run, and
// the host to queue them.
struct MatmulBatch {
  double card_ms = 0;
  double host_ms = 0;
};

struct MatmulRaceRules {
  // A batch has as many launches as last this long, so that the events around it, which tell times apart by about half
  // a microsecond, and the gap before the first launch do not decide; and no more than so many launches.
  double screening_ms = 0.015;
  int most_screening_launches = 4;
  std::size_t screened_at_once = 32;  // batches that are queued behind each other
  double final_ms = 0.1;
  int most_final_launches = 24;

  // A way slower on the card than this, relative to the fastest of the screening, is not in the final; nor are more
  // ways than these.
  double within_reach = 1.5;
  std::size_t most_finalists = 12;
  int rounds = 7;
  int least_rounds = 3;
  // Ways that cost no more than this, relative to the least, cost about the same.
  double same_cost = 1.1;

  // Time of launches after which no further way is screened and the final has its least rounds.
  double budget_ms = 2000;
};

class MatmulRace {
 public:
  // Runs a batch of `launches` launches of each of the ways, one batch after the other.
  using RunBatches = std::function<std::vector<MatmulBatch>(std::span<const std::size_t> ways, int launches)>;

  explicit MatmulRace(RunBatches run_batches, const MatmulRaceRules& rules = {})
      : run_batches_(std::move(run_batches)), rules_(rules) {}

  // Screens the ways from those of the last call up to `count`.
  void screen_up_to(std::size_t count);
  // The fastest of the screening so far, and the time of one of its launches; nullopt while none has run.
  std::optional<std::size_t> leader() const;
  double leader_ms() const;

  // Runs the final among all that were screened. nullopt when none runs.
  std::optional<std::size_t> winner();

  struct Finalist {
    std::size_t way = 0;
    double card_ms = 0;  // of a launch, medians
    double host_ms = 0;
    double cost_ms() const { return std::max(card_ms, host_ms); }
  };
  // After winner(), the best first. A single finalist has the times of its screening.
  const std::vector<Finalist>& finalists() const { return finalists_; }

 private:
  std::vector<Finalist> timed(std::span<const std::size_t> ways, int launches);  // one batch each
  std::vector<std::size_t> within_reach() const;
  int final_rounds(std::size_t finalists, int launches) const;
  void run_final(const std::vector<std::size_t>& ways);
  void rank(std::vector<Finalist>& ways) const;

  RunBatches run_batches_;
  MatmulRaceRules rules_;
  int screening_launches_ = 0;      // of every way; known once one has run
  std::vector<Finalist> screened_;  // by way
  std::vector<Finalist> finalists_;
  double spent_ms_ = 0;
};

}  // namespace ridgepoint::cuda
