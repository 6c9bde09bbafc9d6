// Trains a model on sequences of tokens: steps, evaluation, checkpoints, and the reactions to bad steps.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "core/text/json.h"
#include "ridgepoint/models/run_config.h"
#include "run/session/session.h"
#include "train/checkpoint/checkpoint.h"
#include "train/data/sequences.h"
#include "train/schedule.h"
#include "train/step_log.h"

namespace ridgepoint::train {

// The reaction to a loss or gradient norm that is NaN or infinite, or to a spike of the loss. stop: the run ends with
// an error. skip: the step updates nothing (not for spikes, which are known too late). back: the run goes back to its
// newest checkpoint, and continues with sequences that it has not read.
enum class Reaction : std::uint8_t { stop, skip, back };
inline constexpr std::array kAllReactions = {Reaction::stop, Reaction::skip, Reaction::back};
// stop skip back
std::string_view name(Reaction reaction);
Reaction reaction_from_name(std::string_view text);

// A loss above `factor` times the median of this many losses before it is a spike.
inline constexpr std::size_t kSpikeWindow = 64;
struct SpikeRule {
  double factor = 0;  // 0: no loss is a spike
  Reaction reaction = Reaction::back;
};

struct Saving {
  std::filesystem::path folder;
  std::int64_t every = 0;  // steps; 0: at the end alone
  KeepRule keep = {};
};

struct TrainingOptions {
  RunConfig config;  // of a step: mode step, a scheduled learning rate
  Schedule schedule = {};
  const Sequences* data = nullptr;
  const Sequences* validation = nullptr;  // null: none
  std::int64_t evaluate_every = 0;        // steps; 0: at the end alone
  std::int64_t evaluation_batches = 20;
  std::optional<Saving> saving = {};
  std::optional<FoundCheckpoint> resumed = {};  // where the run goes on
  Reaction on_nonfinite = Reaction::stop;
  SpikeRule spikes = {};
  std::optional<double> limit_seconds = {};  // the run ends with a checkpoint before this time has passed
  Json description = {};                     // of the run, for the manifest of checkpoints
};

// finished: all steps are done. asked: TrainingEvents::is_asked_to_stop. out_of_time: the limit.
enum class Ending : std::uint8_t { finished, asked, out_of_time };

// Of a run, beside its steps.
struct TrainingSummary {
  Ending ending = Ending::finished;
  std::int64_t first_step = 0, last_step = 0;  // from 1; the last is 0 where no step was done
  double seconds = 0;                          // of the loop: steps, evaluations and copies of checkpoints
  double tokens_per_second = 0;                // over these
  std::int64_t peak_allocated_bytes = 0;       // of the program that trains, and of checkpoints
  std::optional<double> noise_scale = {};      // tokens
};

// All members may be empty.
struct TrainingEvents {
  StepWatcher watch;                               // of plans and initial values
  std::function<void(std::int64_t)> on_plan;       // the planned peak of allocated bytes, before the first step
  std::function<void(const StepReport&)> on_step;  // on every rank
  std::function<void(std::string_view)> say;       // a sentence for a person
  std::function<bool()> is_asked_to_stop;          // after every step
  std::function<void(Program&, std::int64_t)>
      after;  // after a step, with its number: for tests, and what compares runs
};

// Trains until the last step of the schedule. Throws Error after a bad step if the reaction is to stop, if the run does
// not fit in memory, and for a checkpoint of another run. Empty if the watcher stopped it.
std::optional<TrainingSummary> train(const TrainingOptions& options, const TrainingEvents& events);

}  // namespace ridgepoint::train
