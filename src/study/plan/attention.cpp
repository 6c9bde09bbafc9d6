#include <fmt/format.h>
#include <fmt/ranges.h>

#include "study/plan/topics.h"

namespace ridgepoint::plan {
namespace {

using Lengths = std::vector<std::int64_t>;

// Calls of attention over sequence lengths.
struct Calls {
  Words options;
  Lengths widths = {64};
  Lengths sequences;
  bool stores_scores = true;
  std::int64_t repeats = 1;  // rows that the options make of one
};

// What does not fit fails at its first matrix of scores: otherwise the host would fill all of its memory first, and
// take minutes to compute in what it has.
Words host_memory_limit(const Planner& planner) {
  const StudyMachine& machine = planner.machine();
  if (machine.is_gpu() || !planner.settings().memory_limit.empty()) return {};
  return {"--memory-limit", fmt::format("{}MiB", (machine.memory_bytes / kScoreMatricesOfMemory) >> 20)};
}

// A command line for each sequence, so that the long ones can be left out.
std::vector<StudyCommand> command_lines(const Planner& planner, const Calls& calls) {
  const StudyMachine& machine = planner.machine();
  const StudyIterations iterations = machine.is_gpu() ? StudyIterations{5, 20} : StudyIterations{1, 5};
  std::vector<StudyCommand> commands;
  for (const std::int64_t sequence : calls.sequences) {
    Words all = calls.options;
    all.insert(all.end(), {"--d-model", fmt::format("{}", fmt::join(calls.widths, ",")), "--sequence",
                           std::to_string(sequence), "--batch", "8", "--heads", "1"});
    if (calls.stores_scores && scores_exceed_memory(machine, sequence)) {
      const Words limit = host_memory_limit(planner);
      all.insert(all.end(), limit.begin(), limit.end());
    }
    StudyCommand command{.arguments = with_iterations(planner.words("attention", all), iterations),
                         .rows = static_cast<std::int64_t>(calls.widths.size()) * calls.repeats,
                         .seconds = start_seconds(machine) / 2};
    for (const std::int64_t width : calls.widths) {
      command.seconds += static_cast<double>(calls.repeats) *
                         attention_seconds(machine, width, sequence, calls.stores_scores, iterations);
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

void add_limit(Planner& planner) {
  const StudyMachine& machine = planner.machine();
  Words words = {"attention", "--device", machine.device, "--oom", "--attention", "naive,composite", "--d-model", "64"};
  if (!planner.settings().memory_limit.empty()) {
    words.insert(words.end(), {"--memory-limit", planner.settings().memory_limit});
  } else if (!machine.is_gpu()) {
    // Keeps the longest sequence short enough to run.
    words.insert(words.end(), {"--memory-limit", "512MiB"});
  }
  planner.add_each(StudyPart::attention_limit, "The longest sequence that fits", 0.04,
                   {{.arguments = words, .rows = 0, .seconds = 5}});
}

void add_accounting(Planner& planner) {
  const char* sequence = planner.machine().is_gpu() ? "16384" : "1024";
  const Words words =
      planner.words("attention", {"--account", "--attention", "naive", "--d-model", "64", "--sequence", sequence});
  planner.add_each(StudyPart::accounting, "What attention allocates", 0.02,
                   {{.arguments = words, .rows = 0, .seconds = 1}});
}

}  // namespace

void add_attention(Planner& planner) {
  planner.add_each(StudyPart::attention_grid, "Attention: widths by sequence lengths", 0.12,
                   command_lines(planner, {.options = {"--attention", "naive"},
                                           .widths = {16, 32, 64, 128},
                                           .sequences = {256, 1024, 4096, 8192, 16384}}));
  add_limit(planner);
  add_accounting(planner);
  planner.add_each(
      StudyPart::ladder, "Variants that keep three, two, one and no matrices of scores", 0.06,
      command_lines(planner, {.options = {"--attention", "naive,composite,softmax,weights,recompute,flash"},
                              .sequences = planner.machine().is_gpu() ? Lengths{1024, 4096, 8192, 16384}
                                                                      : Lengths{256, 1024, 4096},
                              .repeats = 6}));
  planner.add_each(StudyPart::flash, "Tiled attention over long sequences", 0.06,
                   command_lines(planner, {.options = {"--attention", "flash"},
                                           .sequences = {1024, 4096, 8192, 16384, 32768, 65536},
                                           .stores_scores = false}));
  planner.add_each(StudyPart::compiled_attention, "Attention, compiled and not", 0.05,
                   command_lines(planner, {.options = {"--attention", "composite", "--compile", "off,full"},
                                           .sequences = {256, 1024, 4096, 16384},
                                           .repeats = 2}));
}

}  // namespace ridgepoint::plan
