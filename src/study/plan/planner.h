// What the topics of a plan share: the machine, the models, the time that is left, and the parts so far.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridgepoint/compile.h"
#include "study/plan/plan.h"
#include "study/plan/predicted_seconds.h"

namespace ridgepoint::plan {

using Words = std::vector<std::string>;
// Command lines of which the first that fits is taken.
using Choice = std::vector<StudyCommand>;

// The product of these is a sweep of `bench`.
struct BenchSweep {
  std::string model;
  std::vector<Mode> modes;
  std::vector<DType> dtypes = {DType::fp32};
  std::int64_t context = 256;
  Words more = {};           // further options
  std::int64_t repeats = 1;  // rows that these make of one
};

// The parts of several ranks have this share of the limit.
inline constexpr double kShareOfRanks = 0.2;

class Planner {
 public:
  // Begins with the part `devices`. The machine and the settings must outlive the planner.
  Planner(const StudyMachine& machine, const StudySettings& settings);

  const StudyMachine& machine() const { return machine_; }
  const StudySettings& settings() const { return settings_; }
  const StudyIterations& iterations() const { return iterations_; }
  const Words& models() const { return models_; }                  // the smallest first
  const std::string& main_model() const { return main_model_; }    // of most parts
  const std::string& large_model() const { return large_model_; }  // of compilation and checkpointing

  // With the fields that the settings replace.
  TransformerConfig config_of(const std::string& model) const;
  // The large model, and the main one if it is another.
  Words compared_models() const;
  // Predicted, of one iteration of batch 4 and context 256 in fp32.
  double iteration_seconds(const std::string& model, Mode mode) const;

  // A command line with the device and the limits of the settings, and what they replace of the model.
  Words words(const char* command, const Words& more) const;
  StudyCommand bench(const BenchSweep& sweep) const;

  // Adds a part. Of each choice it has the first command line that fits into what is left of the part's share of the
  // limit, from which kShareOfRanks is taken if there are several ranks, and of the shares of earlier parts. The first
  // choice has a command line in any case.
  void add(StudyPart part, std::string title, double share, std::vector<Choice> choices);
  // Each command line is a choice.
  void add_each(StudyPart part, std::string title, double share, std::vector<StudyCommand> commands);

  std::vector<StudyPartPlan> take() { return std::move(plan_); }

 private:
  const StudyMachine& machine_;
  const StudySettings& settings_;
  StudyIterations iterations_;
  Words models_;
  std::string main_model_, large_model_;
  double limit_seconds_ = 0;  // of the parts that all studies have
  double left_ = 0;           // seconds
  std::vector<StudyPartPlan> plan_;
};

// The words with the options for warm-up and timed iterations.
Words with_iterations(Words words, const StudyIterations& iterations);

}  // namespace ridgepoint::plan
