#include "study/plan/topics.h"

namespace ridgepoint::plan {
namespace {

void add_sizes(Planner& planner) {
  std::vector<Choice> sizes;
  for (const std::string& model : planner.models()) {
    sizes.push_back({planner.bench({.model = model,
                                    .modes = {Mode::forward, Mode::backward, Mode::step},
                                    .dtypes = {DType::fp32, DType::bf16}}),
                     planner.bench({.model = model, .modes = {Mode::forward, Mode::step}}),
                     planner.bench({.model = model, .modes = {Mode::forward}})});
  }
  planner.add(StudyPart::sizes, "Step benchmark over sizes, modes and number types", 0.2, std::move(sizes));
}

void add_warmup(Planner& planner) {
  constexpr std::int64_t kSteps = 10;
  const std::string& model = planner.main_model();
  const StudyMachine& machine = planner.machine();
  std::vector<StudyCommand> commands;
  for (const std::int64_t warmup : {0, 1, 2, 5}) {
    const StudyIterations iterations{warmup, kSteps};
    commands.push_back(
        {.arguments = with_iterations(planner.words("bench", {"--model", model, "--mode", "forward"}), iterations),
         .rows = 1,
         .seconds = start_seconds(machine) + initial_seconds(machine, planner.config_of(model)) +
                    planner.iteration_seconds(model, Mode::forward) * static_cast<double>(iterations.total())});
  }
  planner.add_each(StudyPart::warmup, "Warm-up: each row in a new process", 0.06, std::move(commands));
}

void add_contexts(Planner& planner) {
  std::vector<StudyCommand> commands;
  for (const std::int64_t context : {128, 256, 512, 1024}) {
    commands.push_back(
        planner.bench({.model = planner.main_model(), .modes = {Mode::forward, Mode::step}, .context = context}));
  }
  planner.add_each(StudyPart::contexts, "One model over context lengths", 0.1, std::move(commands));
}

void add_profile(Planner& planner) {
  const std::string& model = planner.main_model();
  const StudyMachine& machine = planner.machine();
  const double iterations = 3 + static_cast<double>(planner.iterations().total());
  const Words words = planner.words("profile", {"--model", model, "--mode", "forward,step"});
  planner.add_each(StudyPart::profile, "Kernels: forward against a training step", 0.1,
                   {{.arguments = with_iterations(words, planner.iterations()),
                     .rows = 2,
                     .seconds = start_seconds(machine) + 2 * initial_seconds(machine, planner.config_of(model)) +
                                iterations * (planner.iteration_seconds(model, Mode::forward) +
                                              planner.iteration_seconds(model, Mode::step))}});
}

}  // namespace

void add_steps(Planner& planner) {
  add_sizes(planner);
  add_warmup(planner);
  add_contexts(planner);
  add_profile(planner);
}

}  // namespace ridgepoint::plan
