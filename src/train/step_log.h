// The results of each training step, as rows of one table: on the terminal, in files, and in the history beside the
// checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "tables/table/table.h"

namespace ridgepoint::train {

struct StepReport {
  std::int64_t step = 0;                       // from 1
  double loss = 0;                             // before the update; NaN and infinity are possible
  std::optional<double> validation_loss = {};  // after the update, in steps that evaluate
  double learning_rate = 0;
  std::optional<double> gradient_norm = {};
  std::optional<double> micro_gradient_norm = {};  // of the first micro-batch, where there are several
  std::optional<double> noise_scale = {};          // tokens; GradientNoise, of the steps of this process
  double seconds = 0;                              // of the step alone: data, run and loss
  double checkpoint_seconds = 0;                   // of the copy of a checkpoint behind the step before
  double tokens_per_second = 0;                    // of all ranks
  std::optional<double> mfu = {};
  std::int64_t skipped_steps = 0;         // so far: without an update
  std::int64_t peak_allocated_bytes = 0;  // so far
  std::int64_t tokens = 0;                // that the run has read, of all ranks
  std::int64_t first_sequence = 0;        // the place in the data of the first sequence of the step
  std::string data = {};                  // Sequences::fingerprint()
};

// For people without the columns that identify the step's data.
tables::Table step_table(std::span<const StepReport> steps, tables::Format format);
Json to_json(const StepReport& step);

// Whether a row of a file is one of step_table().
bool is_step(const Json& row);
// The steps of rows, whose fields may be incomplete. If a run went back to a checkpoint, steps appear twice, and the
// later ones count. Throws Error for a row that is no step.
struct StepHistory {
  std::vector<StepReport> steps;      // ascending
  std::vector<std::int64_t> returns;  // the steps behind which the run went back
};
StepHistory step_history(std::span<const Json> rows);

// The file of all steps of a run, a line of JSON each, in the folder of its checkpoints. A run that is resumed from a
// step removes the lines of later steps.
class History {
 public:
  // `last_step`: the step of the checkpoint that the run is resumed from; 0 for a new run. Throws Error.
  History(const std::filesystem::path& folder, std::int64_t last_step);
  void add(const StepReport& step);

  static std::filesystem::path path_in(const std::filesystem::path& folder) { return folder / "steps.jsonl"; }

 private:
  std::ofstream file_;
};

}  // namespace ridgepoint::train
