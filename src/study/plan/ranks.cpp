#include <fmt/format.h>

#include "study/plan/topics.h"

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

// A row for each of `shardings`, which there are `count` of.
StudyCommand sharded(const Planner& planner, const std::string& model, const char* shardings, std::int64_t count) {
  const bool is_gpu = planner.machine().is_gpu();
  const std::string ranks = std::to_string(planner.settings().ranks);
  StudyCommand command = planner.bench({.model = model,
                                        .modes = {Mode::step},
                                        .dtypes = {is_gpu ? DType::bf16 : DType::fp32},
                                        .more = {"--compile", is_gpu ? "full" : "fuse", "--parallel", "data=" + ranks,
                                                 "--shard", shardings, "--ranks", ranks},
                                        .repeats = count});
  command.seconds *= slowdown(planner);
  return command;
}

void add_sharding(Planner& planner) {
  std::vector<Choice> choices;
  for (const std::string& model : planner.compared_models()) {
    choices.push_back({sharded(planner, model, "none,optimizer,gradients,parameters", 4),
                       sharded(planner, model, "none,optimizer", 2)});
  }
  planner.add(StudyPart::ranks, "Several ranks against one, by what they share", 0.14, std::move(choices));
}

}  // namespace

void add_ranks(Planner& planner) {
  add_collectives(planner);
  add_sharding(planner);
}

}  // namespace ridgepoint::plan
