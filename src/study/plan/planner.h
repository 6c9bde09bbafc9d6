// Plans a study. Holds the machine, the models, the time that is left and the parts so far. Estimates the time of
// command lines from their operations, the bytes that attention moves, and the rates of the machine. The estimate only
// chooses rows; no result shows it.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "models/transformer/transformer.h"
#include "ridgepoint/ops/compile.h"
#include "study/plan/edition.h"
#include "study/plan/plan.h"

namespace ridgepoint::plan {

// A call that stores matrices of scores needs memory for this many of them.
inline constexpr int kScoreMatricesOfMemory = 4;

struct StudyIterations {
  std::int64_t warmup = 5;
  std::int64_t steps = 10;
  std::int64_t total() const { return warmup + steps; }
};

using Words = std::vector<std::string>;
// Command lines of which the first that fits is taken.
using Choice = std::vector<StudyCommand>;

// A sweep of `bench`: a row for each mode and each dtype.
struct BenchSweep {
  std::string model;
  std::vector<Mode> modes;
  std::vector<DType> dtypes = {DType::fp32};
  std::int64_t context = 0;  // 0: that of the edition
  Words more = {};           // further options
  std::int64_t repeats = 1;  // rows that the further options make of one
};

// The parts of several ranks have this share of the limit.
inline constexpr double kShareOfRanks = 0.25;

class Planner {
 public:
  // Begins with the part `devices`. The machine and the settings must outlive the planner.
  Planner(const StudyMachine& machine, const StudySettings& settings);

  const StudyMachine& machine() const { return machine_; }
  const StudySettings& settings() const { return settings_; }
  const Edition& edition() const { return edition_; }
  const StudyIterations& iterations() const { return iterations_; }
  std::int64_t ranks() const { return std::max(settings_.ranks, edition_.ranks); }  // that are measured or planned
  const std::string& main_model() const { return main_model_; }                     // of most parts
  const std::string& planned_card() const { return planned_card_; }                 // empty: nothing is planned
  const std::string& large_model() const { return large_model_; }                   // of compilation and checkpointing

  // With the fields that the settings replace.
  TransformerConfig config_of(const std::string& model) const;
  // The large model, and the main one if it is another.
  Words compared_models() const;
  // Predicted, of one iteration of batch 4. Context 0: that of the edition.
  double iteration_seconds(const std::string& model, Mode mode, std::int64_t context = 0,
                           DType dtype = DType::fp32) const;

  // A command line with the device and the limits of the settings, and what they replace of the model.
  Words words(const char* command, const Words& more) const;
  StudyCommand bench(const BenchSweep& sweep) const;
  // For each mode and each of fp32 and bf16 a row, which one iteration measures.
  StudyCommand memory(const std::string& model, std::int64_t context, const std::vector<Mode>& modes) const;

  // Adds a part. The part has `share` of the limit (less kShareOfRanks if there are several ranks), and the time that
  // earlier parts left. Of each choice the part takes the first command line that fits into the time left and into the
  // memory of a host. Other command lines are planned for a card instead, if there is a card and the command can be
  // planned. If nothing is planned, the part always has the cheapest command line of its first choice, unless that
  // needs more ranks than there are.
  void add(StudyPart part, std::string title, double share, std::vector<Choice> choices);
  // Each command line is a choice.
  void add_each(StudyPart part, std::string title, double share, std::vector<StudyCommand> commands);

  std::vector<StudyPartPlan> take() { return std::move(plan_); }

 private:
  bool fits(const StudyCommand& command) const;
  // A command line that plans the same rows for `planned_card_` and runs nothing.
  std::optional<StudyCommand> planned(const StudyCommand& command) const;

  const StudyMachine& machine_;
  const StudySettings& settings_;
  Edition edition_;
  StudyIterations iterations_;
  std::string main_model_, large_model_;
  std::string planned_card_;  // empty: nothing is planned
  double limit_seconds_ = 0;  // of the parts that all studies have
  double left_ = 0;           // seconds
  std::vector<StudyPartPlan> plan_;
  // Of models, modes and contexts: a graph is built to count the operations.
  mutable std::map<std::tuple<std::string, Mode, std::int64_t>, double> flops_;
};

// "fp32,bf16": the names of a list of enums.
template <typename Values>
std::string joined_names(const Values& values) {
  Words names;
  for (const auto value : values) names.emplace_back(name(value));
  return fmt::format("{}", fmt::join(names, ","));
}

// The words with the options for warm-up and timed iterations.
Words with_iterations(Words words, const StudyIterations& iterations);

// At the rate of products in bf16 on a GPU, and in fp32 on a processor, less what others take.
double flop_seconds(const StudyMachine& machine, double flops);

// Of one process, before its first row.
double start_seconds(const StudyMachine& machine);

// The initial values of a model.
double initial_seconds(const StudyMachine& machine, const TransformerConfig& model);

// One call of attention with one head.
struct AttentionCall {
  std::int64_t batch = 8, width = 64, sequence = 0;
  bool stores_scores = true;  // all of them, or none
};
// Whether the call clearly does not fit in memory: its backward needs more than kScoreMatricesOfMemory of the scores.
bool scores_exceed_memory(const StudyMachine& machine, const AttentionCall& call);
// Forward, and forward with backward. 0 where they do not fit.
double attention_seconds(const StudyMachine& machine, const AttentionCall& call, const StudyIterations& iterations);

// Adds all parts in their order, those of several ranks only if there are any.
void add_parts(Planner& planner);

}  // namespace ridgepoint::plan
