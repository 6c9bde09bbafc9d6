#include <fmt/format.h>

#include "study/plan/topics.h"

namespace ridgepoint::plan {
namespace {

StudyCommand peaks_of(const Planner& planner, const std::string& model, std::int64_t context) {
  const StudyMachine& machine = planner.machine();
  StudyCommand command{
      .arguments =
          planner.words("memory", {"--model", model, "--mode", "forward,training_forward,step", "--dtype", "fp32,bf16",
                                   "--context", std::to_string(context), "--warmup", "1", "--steps", "1"}),
      .rows = 6};
  command.seconds = start_seconds(machine) + 6 * initial_seconds(machine, planner.config_of(model));
  for (const Mode mode : {Mode::forward, Mode::training_forward, Mode::step})
    for (const DType dtype : {DType::fp32, DType::bf16})
      command.seconds += 2 * iteration_seconds(machine, planner.config_of(model), mode, 4, context, dtype);
  return command;
}

void add_peaks(Planner& planner) {
  Words models = {planner.main_model()};
  if (planner.machine().is_gpu() && planner.models().back() != models.front())
    models.push_back(planner.models().back());
  std::vector<StudyCommand> commands;
  for (const std::string& model : models)
    for (const std::int64_t context : {128, 256, 512}) commands.push_back(peaks_of(planner, model, context));
  planner.add_each(StudyPart::memory_peaks, "Peaks by context, mode and number type", 0.1, std::move(commands));
}

void add_timeline(Planner& planner, StudyPart part, const char* title, const Words& options, std::int64_t steps) {
  const std::string& model = planner.main_model();
  Words all = {"--model", model};
  all.insert(all.end(), options.begin(), options.end());
  all = with_iterations(std::move(all), {1, steps});
  all.insert(all.end(),
             {"--timeline", fmt::format("{{folder}}/timelines/{0}.csv,{{folder}}/pictures/{0}.svg", name(part))});
  const StudyMachine& machine = planner.machine();
  planner.add_each(part, title, 0.03,
                   {{.arguments = planner.words("memory", all),
                     .rows = 1,
                     .seconds = start_seconds(machine) + initial_seconds(machine, planner.config_of(model)) +
                                static_cast<double>(1 + steps) * planner.iteration_seconds(model, Mode::step)}});
}

}  // namespace

void add_memory(Planner& planner) {
  add_peaks(planner);
  add_timeline(planner, StudyPart::memory_step, "The memory of a training step", {"--mode", "step", "--dtype", "fp32"},
               3);
  add_timeline(planner, StudyPart::memory_forward_loop, "The memory of repeated forward passes",
               {"--mode", "training_forward", "--dtype", "bf16"}, 6);
}

}  // namespace ridgepoint::plan
