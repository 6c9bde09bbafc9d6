// Finds the fastest of several candidates ("ways") to compute one product. All are timed with the same number of
// consecutive launches, so that the times are comparable. Needs no GPU: a function times batches.
//
// One batch screens each candidate. Those that are close to the fastest run in a final: in each round every finalist
// runs one batch, in alternating order, so that a drifting clock affects all of them equally, and medians decide. A
// launch costs its time on the GPU or on the host, whichever is longer: a candidate that splits K into two kernels may
// be fast on the GPU but slow on the host. Among candidates of about the same cost, the GPU time decides.
//
// A product that takes long belongs to a step that draws the GPU's whole power. The GPU then lowers its clock, by more
// for a candidate that moves more bytes for each operation. So the best of a final of long launches meet once more,
// each in batches that last until the clock has settled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace ridgepoint::cuda {

// How often a batch launches a candidate, first without measuring it.
struct BatchLaunches {
  int timed = 1;
  int untimed = 0;
};

// The total time of the timed launches of one batch: on the GPU, infinite if they cannot run, and on the host to queue
// them.
struct MatmulBatch {
  double card_ms = 0;
  double host_ms = 0;
};

struct MatmulRaceRules {
  // A batch has as many launches as take this time, up to a maximum number. It is long enough that the resolution of
  // events, about half a microsecond, and the gap before the first launch do not matter.
  double screening_ms = 0.015;
  int most_screening_launches = 4;
  std::size_t screened_at_once = 32;  // batches that are queued together
  double final_ms = 0.1;
  int most_final_launches = 24;

  // A candidate whose GPU time, relative to the fastest one in the screening, is above this is not in the final, nor
  // are more candidates than these.
  double within_reach = 1.5;
  std::size_t most_finalists = 12;
  int rounds = 7;
  int least_rounds = 3;
  // Candidates that cost at most this, relative to the least cost, cost about the same.
  double same_cost = 1.1;

  // Finalists whose launches take so long meet at the GPU's power limit: the best ones of the final, which the fastest
  // one brings to the limit. A batch is timed when it has lasted for `settling_ms`. The slower half leaves each round.
  double limited_from_ms = 0.4;
  double limited_within_reach = 1.1;
  std::size_t most_limited = 4;
  double warming_ms = 250;
  double settling_ms = 30;
  double limited_ms = 40;

  // The total launch time after which no more candidates are screened and the final has its minimum of rounds.
  double budget_ms = 2000;
};

class MatmulRace {
 public:
  // Runs a batch of each candidate, one batch after the other.
  using RunBatches =
      std::function<std::vector<MatmulBatch>(std::span<const std::size_t> ways, const BatchLaunches& launches)>;

  explicit MatmulRace(RunBatches run_batches, const MatmulRaceRules& rules = {})
      : run_batches_(std::move(run_batches)), rules_(rules) {}

  // Screens the candidates up to number `count` that are not screened yet.
  void screen_up_to(std::size_t count);
  // The fastest candidate so far, and the time of one of its launches; nullopt if none has run.
  std::optional<std::size_t> leader() const;
  double leader_ms() const;

  // Runs the final among all screened candidates. nullopt if none can run.
  std::optional<std::size_t> winner();

  struct Finalist {
    std::size_t way = 0;
    double card_ms = 0;  // of a launch, medians
    double host_ms = 0;
    double cost_ms() const { return std::max(card_ms, host_ms); }
  };
  // The finalists after winner(), best first, with their times in the final. A single one has those of the screening.
  const std::vector<Finalist>& finalists() const { return finalists_; }
  // The screening, by way; the time of one that cannot run is infinite.
  const std::vector<Finalist>& screened() const { return screened_; }

 private:
  std::vector<Finalist> timed(std::span<const std::size_t> ways, const BatchLaunches& launches);  // one batch each
  std::vector<std::size_t> within_reach() const;
  int final_rounds(std::size_t finalists, int launches) const;
  void run_final(const std::vector<std::size_t>& ways);
  void rank(std::vector<Finalist>& ways) const;
  std::size_t fastest_at_the_power_limit();  // of the finalists

  RunBatches run_batches_;
  MatmulRaceRules rules_;
  int screening_launches_ = 0;      // of every candidate; set after the first one
  std::vector<Finalist> screened_;  // by way
  std::vector<Finalist> finalists_;
  double spent_ms_ = 0;
};

}  // namespace ridgepoint::cuda
