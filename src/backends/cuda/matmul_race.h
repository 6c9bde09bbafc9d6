// Finds the fastest of several ways to compute one product, by times that can be compared: all ways are timed with the
// same number of launches queued behind each other. Needs no card: a function times a batch.
//
// Every way that runs is screened by one batch. Those within reach of the fastest meet in the final: in each round
// every finalist runs one batch, in turns, so that a clock that drifts touches all of them alike, and medians decide.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace ridgepoint::cuda {

struct MatmulRaceRules {
  // A batch has as many launches as last this long, so that the events around it, which tell times apart by about half
  // a microsecond, and the gap before the first launch do not decide; and no more than so many launches.
  double screening_ms = 0.015;
  int most_screening_launches = 4;
  double final_ms = 0.1;
  int most_final_launches = 24;

  // A way slower than this, relative to the fastest of the screening, is not in the final; nor are more ways than
  // these.
  double within_reach = 1.5;
  std::size_t most_finalists = 12;
  int rounds = 7;
  int least_rounds = 3;

  // Time of launches after which no further way is screened and the final has its least rounds.
  double budget_ms = 2000;
};

class MatmulRace {
 public:
  // The milliseconds that `launches` launches of one way, queued behind each other, take together; infinite when it
  // does not run.
  using BatchTime = std::function<double(std::size_t way, int launches)>;

  explicit MatmulRace(BatchTime batch_ms, const MatmulRaceRules& rules = {})
      : batch_ms_(std::move(batch_ms)), rules_(rules) {}

  // Screens the ways from those of the last call up to `count`.
  void screen_up_to(std::size_t count);
  // The fastest of the screening so far, and the time of one of its launches; nullopt while none has run.
  std::optional<std::size_t> leader() const;
  double leader_ms() const;

  // Runs the final among all that were screened. nullopt when none runs.
  std::optional<std::size_t> winner();

  struct Finalist {
    std::size_t way = 0;
    double median_ms = 0;  // of a launch
  };
  // After winner(), the fastest first. A single finalist has the time of its screening.
  const std::vector<Finalist>& finalists() const { return finalists_; }

 private:
  double timed(std::size_t way, int launches);  // of the batch
  std::vector<std::size_t> within_reach() const;
  int final_rounds(std::size_t finalists, int launches) const;

  BatchTime batch_ms_;
  MatmulRaceRules rules_;
  int screening_launches_ = 0;       // of every way; known once one has run
  std::vector<double> screened_ms_;  // of a launch; infinite for what does not run
  std::vector<Finalist> finalists_;
  double spent_ms_ = 0;
};

}  // namespace ridgepoint::cuda
