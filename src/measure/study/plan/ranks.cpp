#include <fmt/format.h>

#include "measure/study/plan/topics.h"

namespace ridgepoint::plan {
namespace {

void add_collectives(Planner& planner) {
  const StudyMachine& machine = planner.machine();
  const std::string largest = machine.is_gpu() ? "1GiB" : "16MiB";
  const Words words = {"collectives",
                       "--device",
                       machine.device,
                       "--ranks",
                       std::to_string(planner.settings().ranks),
                       "--size",
                       fmt::format("1KiB:{}:*4", largest)};
  planner.add_each(StudyPart::collectives, "Collectives between ranks", 0.03,
                   {{.arguments = words, .rows = 0, .seconds = start_seconds(machine) + 5}});
}

// Ranks of a processor share its cores, and one rank then runs alone.
double slowdown(const Planner& planner) {
  return 1 + (planner.machine().is_gpu() ? 1 : static_cast<double>(planner.settings().ranks));
}

void add_sharding(Planner& planner) {
  const bool is_gpu = planner.machine().is_gpu();
  const std::string ranks = std::to_string(planner.settings().ranks);
  std::vector<StudyCommand> commands;
  for (const std::string& model : planner.compared_models()) {
    StudyCommand command = planner.bench({.model = model,
                                          .modes = {Mode::step},
                                          .dtypes = {is_gpu ? DType::bf16 : DType::fp32},
                                          .more = {"--compile", is_gpu ? "full" : "fuse", "--parallel", "data=" + ranks,
                                                   "--shard", "none,optimizer,gradients,parameters", "--ranks", ranks},
                                          .repeats = 4});
    command.seconds *= slowdown(planner);
    commands.push_back(std::move(command));
  }
  planner.add_each(StudyPart::ranks, "Several ranks against one, by what they share", 0.14, std::move(commands));
}

}  // namespace

void add_ranks(Planner& planner) {
  add_collectives(planner);
  add_sharding(planner);
}

}  // namespace ridgepoint::plan
