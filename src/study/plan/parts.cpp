// The parts of a study by topic: their command lines, with the predicted time of each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "study/plan/planner.h"

namespace ridgepoint::plan {
namespace {

void add_sizes(Planner& planner) {
  std::vector<Choice> sizes;
  for (const std::string& model : planner.models()) {
    sizes.push_back({planner.bench({.model = model,
                                    .modes = {Mode::forward, Mode::forward_backward, Mode::step},
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

using Lengths = std::vector<std::int64_t>;

// Calls of attention over sequence lengths.
struct Calls {
  Words options;
  Lengths widths = {64};
  Lengths sequences;
  bool stores_scores = true;
  std::int64_t repeats = 1;  // rows that the options make of one
};

// With this limit a call that does not fit fails at its first matrix of scores. Without it the host would fill all of
// its memory first, and compute for minutes.
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

void add_steps(Planner& planner) {
  add_sizes(planner);
  add_warmup(planner);
  add_contexts(planner);
  add_profile(planner);
}

void add_precision(Planner& planner) {
  planner.add_each(StudyPart::accumulation, "Sums of a thousand terms", 0.01,
                   {{.arguments = {"precision"}, .rows = 0, .seconds = 0.1}});
  std::vector<StudyCommand> autocast;
  for (const char* dtype : {"fp16", "bf16"})
    autocast.push_back({.arguments = {"precision", "--autocast", dtype}, .rows = 0, .seconds = 0.1});
  planner.add_each(StudyPart::autocast, "Types under autocast", 0.01, std::move(autocast));
  const Words error = {"precision", "--error", "--dtype", "fp32,bf16,fp16", "--device", planner.machine().device};
  planner.add_each(StudyPart::precision_error, "Errors against double precision", 0.03,
                   {{.arguments = error, .rows = 0, .seconds = 1}});
}

void add_memory(Planner& planner) {
  add_peaks(planner);
  add_timeline(planner, StudyPart::memory_step, "The memory of a training step", {"--mode", "step", "--dtype", "fp32"},
               3);
  add_timeline(planner, StudyPart::memory_forward_loop, "The memory of repeated forward passes",
               {"--mode", "training_forward", "--dtype", "bf16"}, 6);
}

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

void add_policies(Planner& planner) {
  const DType dtype = planner.machine().is_gpu() ? DType::bf16 : DType::fp32;
  std::vector<StudyCommand> compiled;
  for (const std::string& model : planner.compared_models()) {
    compiled.push_back(planner.bench({.model = model,
                                      .modes = {Mode::forward, Mode::step},
                                      .dtypes = {dtype},
                                      .more = {"--compile", "off,full"},
                                      .repeats = 2}));
  }
  planner.add_each(StudyPart::compiled_model, "Whole models, compiled and not", 0.08, std::move(compiled));
  planner.add_each(StudyPart::checkpointing, "Checkpoint policies", 0.1,
                   {planner.bench({.model = planner.large_model(),
                                   .modes = {Mode::step},
                                   .dtypes = {dtype},
                                   .more = {"--checkpoint", "none,attention,selective,block"},
                                   .repeats = 4})});
}

void add_ranks(Planner& planner) {
  add_collectives(planner);
  add_sharding(planner);
}

}  // namespace

void add_parts(Planner& planner) {
  add_steps(planner);
  add_precision(planner);
  add_memory(planner);
  add_attention(planner);
  add_policies(planner);
  if (planner.settings().ranks > 1) add_ranks(planner);
}

}  // namespace ridgepoint::plan
