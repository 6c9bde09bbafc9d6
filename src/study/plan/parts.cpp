// The parts of a study by topic: their command lines, with the predicted time of each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "predict/cards/datasheet.h"
#include "study/plan/planner.h"

namespace ridgepoint::plan {
namespace {

using Without = StudyCommand::WithoutCard;

void add_sizes(Planner& planner) {
  std::vector<Choice> sizes;
  for (const std::string& model : planner.edition().models) {
    sizes.push_back({planner.bench({.model = model,
                                    .modes = {Mode::forward, Mode::forward_backward, Mode::step},
                                    .dtypes = {DType::fp32, DType::bf16}}),
                     planner.bench({.model = model, .modes = {Mode::forward, Mode::step}}),
                     planner.bench({.model = model, .modes = {Mode::forward}})});
  }
  // How many updates loss scaling skips: one row of a small model, before those of larger ones.
  const Edition& edition = planner.edition();
  const std::string& small = edition.name.empty() ? edition.models.front() : planner.main_model();
  StudyCommand scaled = planner.bench({.model = small, .modes = {Mode::step}, .dtypes = {DType::fp16}});
  scaled.without_card = Without::is_left_out;
  sizes.insert(sizes.begin() + 1, Choice{std::move(scaled)});
  planner.add(StudyPart::sizes, "Step benchmark over sizes, modes and number types", 0.2, std::move(sizes));
}

void add_warmup(Planner& planner) {
  constexpr std::int64_t kSteps = 10;
  const std::string& model = planner.main_model();
  const StudyMachine& machine = planner.machine();
  const Words forward = {"--model", model, "--mode", "forward", "--context", std::to_string(planner.edition().context)};
  const auto command = [&](Words words, double starts, std::int64_t iterations) -> StudyCommand {
    return {.arguments = std::move(words),
            .rows = 1,
            .seconds = starts * start_seconds(machine) + initial_seconds(machine, planner.config_of(model)) +
                       planner.iteration_seconds(model, Mode::forward) * static_cast<double>(iterations),
            .without_card = Without::is_left_out};
  };
  std::vector<StudyCommand> commands;
  for (const std::int64_t warmup : {0, 1, 2, 5}) {
    const StudyIterations iterations{warmup, kSteps};
    commands.push_back(command(with_iterations(planner.words("bench", forward), iterations), 1, iterations.total()));
  }
  // Where the time of the first call goes.
  Words first_call = forward;
  first_call.emplace_back("--first-call");
  commands.push_back(command(planner.words("bench", first_call), 2, 1));
  planner.add_each(StudyPart::warmup, "Warm-up: each row in a new process", 0.06, std::move(commands));
}

void add_contexts(Planner& planner) {
  std::vector<StudyCommand> commands;
  for (const std::int64_t context : planner.edition().contexts) {
    commands.push_back(
        planner.bench({.model = planner.main_model(), .modes = {Mode::forward, Mode::step}, .context = context}));
  }
  planner.add_each(StudyPart::contexts, "One model over context lengths", 0.1, std::move(commands));
}

// A model that is too large to run here is profiled at the size of the main model.
void add_profile(Planner& planner) {
  const StudyMachine& machine = planner.machine();
  const double iterations = 3 + static_cast<double>(planner.iterations().total());
  const auto profile = [&](const std::string& model, std::int64_t context) -> StudyCommand {
    const TransformerConfig config = planner.config_of(model);
    const Words words =
        planner.words("profile", {"--model", model, "--mode", "forward,step", "--context", std::to_string(context)});
    StudyCommand command{.arguments = with_iterations(words, planner.iterations()),
                         .rows = 2,
                         .seconds = start_seconds(machine) + 2 * initial_seconds(machine, config),
                         .without_card = Without::is_left_out};
    for (const Mode mode : {Mode::forward, Mode::step})
      command.seconds += iterations * planner.iteration_seconds(model, mode, context);
    return command;
  };
  std::vector<StudyCommand> commands;
  for (const std::string& model : planner.edition().profiled_models)
    for (const std::int64_t context : planner.edition().profiled_contexts) commands.push_back(profile(model, context));
  const StudyCommand main = profile(planner.main_model(), planner.edition().profiled_contexts.front());
  if (commands.front().seconds > main.seconds) commands = {main};
  planner.add_each(StudyPart::profile, "Kernels: forward against a training step", 0.1, std::move(commands));
}

void add_peaks(Planner& planner) {
  std::vector<StudyCommand> commands;
  for (const std::string& model : planner.edition().memory_models) {
    for (const std::int64_t context : planner.edition().memory_contexts)
      commands.push_back(planner.memory(model, context, {Mode::forward, Mode::training_forward, Mode::step}));
  }
  planner.add_each(StudyPart::memory_peaks, "Peaks by context, mode and number type", 0.1, std::move(commands));
}

StudyCommand timeline(const Planner& planner, const std::string& file, Mode mode, DType dtype, std::int64_t context,
                      std::int64_t steps) {
  const std::string& model = planner.edition().timeline_model;
  StudyCommand command = planner.memory(model, context, {mode});
  const Words words = planner.words("memory", {"--model", model, "--mode", std::string(name(mode)), "--dtype",
                                               std::string(name(dtype)), "--context", std::to_string(context)});
  command.arguments = with_iterations(words, {1, steps});
  command.arguments.insert(
      command.arguments.end(),
      {"--timeline", fmt::format("{{folder}}/timelines/{0}.csv,{{folder}}/pictures/{0}.svg", file)});
  command.rows = 1;
  command.seconds += static_cast<double>(steps) * planner.iteration_seconds(model, mode, context);
  return command;
}

// A timeline in each mode at the context of the edition, which the answers read, and at its further contexts.
void add_timelines(Planner& planner, StudyPart part, const char* title, const std::vector<Mode>& modes, DType dtype,
                   std::int64_t steps) {
  std::vector<StudyCommand> commands;
  const auto add = [&](Mode mode, std::int64_t context) {
    std::string file(name(part));
    if (mode != modes.front()) file += fmt::format("_{}", name(mode));
    if (context != planner.edition().context) file += fmt::format("_{}", context);
    commands.push_back(timeline(planner, file, mode, dtype, context, steps));
  };
  for (const Mode mode : modes) add(mode, planner.edition().context);
  for (const std::int64_t context : planner.edition().timeline_contexts) add(modes.front(), context);
  planner.add_each(part, title, 0.03, std::move(commands));
}

// Calls of attention over sequence lengths.
struct Calls {
  Words variants;
  Lengths sequences;
  Lengths widths = {64};
  std::int64_t batch = 8;
  std::int64_t steps = 20;   // on a GPU
  Words options = {};        // further ones
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
  const StudyIterations iterations = machine.is_gpu() ? StudyIterations{5, calls.steps} : StudyIterations{1, 5};
  std::vector<StudyCommand> commands;
  for (const std::int64_t sequence : calls.sequences) {
    std::vector<AttentionCall> rows;
    for (const std::string& variant : calls.variants) {
      for (const std::int64_t width : calls.widths)
        rows.push_back(
            {.batch = calls.batch, .width = width, .sequence = sequence, .stores_scores = variant != "flash"});
    }
    Words all = {"--attention", fmt::format("{}", fmt::join(calls.variants, ","))};
    all.insert(all.end(), calls.options.begin(), calls.options.end());
    all.insert(all.end(), {"--d-model", fmt::format("{}", fmt::join(calls.widths, ",")), "--sequence",
                           std::to_string(sequence), "--batch", std::to_string(calls.batch), "--heads", "1"});
    const bool exceeds_memory =
        std::ranges::any_of(rows, [&](const AttentionCall& row) { return scores_exceed_memory(machine, row); });
    if (exceeds_memory) {
      const Words limit = host_memory_limit(planner);
      all.insert(all.end(), limit.begin(), limit.end());
    }
    StudyCommand command{.arguments = with_iterations(planner.words("attention", all), iterations),
                         .rows = std::ssize(rows) * calls.repeats,
                         .seconds = start_seconds(machine) / 2};
    if (exceeds_memory && !planner.planned_card().empty()) command.bytes = machine.memory_bytes;
    for (const AttentionCall& row : rows)
      command.seconds += static_cast<double>(calls.repeats) * attention_seconds(machine, row, iterations);
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

// Of a length that fits, and of the shortest power of two that does not, up to the request that fails.
void add_accounting(Planner& planner) {
  const StudyMachine& machine = planner.machine();
  const std::int64_t fits = machine.is_gpu() ? 16384 : 1024;
  std::int64_t fails = fits;
  while (!scores_exceed_memory(machine, {.sequence = fails})) fails *= 2;
  Words words = planner.words("attention", {"--account", "--attention", "naive", "--d-model", "64", "--sequence",
                                            fmt::format("{},{}", fits, fails)});
  const Words limit = host_memory_limit(planner);
  words.insert(words.end(), limit.begin(), limit.end());
  planner.add_each(StudyPart::accounting, "What attention allocates", 0.02,
                   {{.arguments = words, .rows = 0, .seconds = 1}});
}

void add_collectives(Planner& planner) {
  const StudyMachine& machine = planner.machine();
  const Edition& edition = planner.edition();
  const auto on = [&](const std::string& device, std::int64_t ranks, std::string_view sizes) -> StudyCommand {
    const Words words = {"collectives", "--device",        device, "--ranks", std::to_string(ranks),
                         "--size",      std::string(sizes)};
    return {.arguments = words,
            .rows = 0,
            .seconds = start_seconds(machine) + (device == "cpu" ? 2.5 * static_cast<double>(ranks) : 5),
            .without_card = Without::is_left_out};
  };
  const std::int64_t ranks = planner.settings().ranks;
  std::vector<StudyCommand> commands = {
      on(machine.device, ranks, machine.is_gpu() ? edition.message_sizes : edition.message_sizes_of_cpu)};
  for (const std::int64_t processes : edition.processes) {
    if (machine.is_gpu() || processes != ranks) commands.push_back(on("cpu", processes, edition.message_sizes_of_cpu));
  }
  planner.add_each(StudyPart::collectives, "Collectives between ranks", 0.03, std::move(commands));
}

// Ranks of a processor share its cores, and one rank then runs alone.
double slowdown(const Planner& planner) {
  return 1 + (planner.machine().is_gpu() ? 1 : static_cast<double>(planner.settings().ranks));
}

// A training step on several ranks: a row for each value of `more`, which there are `count` of.
StudyCommand step_on_ranks(const Planner& planner, const std::string& model, const Words& more, std::int64_t count) {
  const bool is_gpu = planner.machine().is_gpu();
  Words all = {"--compile", is_gpu ? "full" : "fuse", "--ranks", std::to_string(planner.ranks())};
  all.insert(all.end(), more.begin(), more.end());
  StudyCommand command = planner.bench({.model = model,
                                        .modes = {Mode::step},
                                        .dtypes = {is_gpu ? DType::bf16 : DType::fp32},
                                        .more = std::move(all),
                                        .repeats = count});
  command.ranks = planner.ranks();
  command.seconds *= slowdown(planner);
  return command;
}

void add_sharding(Planner& planner) {
  const std::string data = fmt::format("data={}", planner.ranks());
  std::vector<Choice> choices;
  for (const std::string& model : planner.compared_models()) {
    choices.push_back(
        {step_on_ranks(planner, model, {"--parallel", data, "--shard", "none,optimizer,gradients,parameters"}, 4),
         step_on_ranks(planner, model, {"--parallel", data, "--shard", "none,optimizer"}, 2)});
  }
  planner.add(StudyPart::ranks, "Several ranks against one, by what they share", 0.3, std::move(choices));
}

// What a rank has allocated after initialisation, and before and after the optimizer's step.
void add_sharded_memory(Planner& planner) {
  const std::string& parallel = planner.edition().parallel_model;
  const std::string& model = parallel.empty() ? planner.main_model() : parallel;
  const std::int64_t context = planner.edition().context;
  StudyCommand command = planner.memory(model, context, {Mode::step});
  const std::string ranks = std::to_string(planner.ranks());
  const Words words =
      planner.words("memory", {"--model", model, "--mode", "step", "--context", std::to_string(context), "--parallel",
                               "data=" + ranks, "--shard", "none,optimizer,gradients,parameters", "--ranks", ranks});
  command.arguments = with_iterations(words, {1, 1});
  command.rows = 4;
  command.ranks = planner.ranks();
  command.seconds *= slowdown(planner);
  planner.add_each(StudyPart::sharded_memory, "The memory of a rank, by what is divided", 0.05, {std::move(command)});
}

// Gradients one by one and as one message, behind backward; one by one and in buckets, beside it.
void add_data_parallel(Planner& planner) {
  const std::string& model = planner.edition().parallel_model;
  if (model.empty()) return;
  const std::string data = fmt::format("data={}", planner.ranks());
  const Words ways = {"--parallel", data + ",overlap=off,bucket=each,all", "--parallel",
                      data + ",bucket=each,1MB:1000MB:*10"};
  planner.add_each(StudyPart::data_parallel, "Gradients one by one, as one message, and in buckets", 0.1,
                   {step_on_ranks(planner, model, ways, 7)});
}

void add_steps(Planner& planner) {
  add_sizes(planner);
  add_warmup(planner);
  add_contexts(planner);
  add_profile(planner);
}

void add_precision(Planner& planner) {
  const auto precision = [](Words options, double seconds = 0.1) -> StudyCommand {
    options.insert(options.begin(), "precision");
    return {.arguments = std::move(options), .rows = 0, .seconds = seconds, .without_card = Without::runs};
  };
  planner.add_each(StudyPart::accumulation, "Sums of a thousand terms, and the steps of a layer norm", 0.01,
                   {precision({}), precision({"--term", "100", "--count", "1000"}), precision({"--norm"})});
  planner.add_each(StudyPart::autocast, "Types under autocast", 0.01,
                   {precision({"--autocast", "fp16", "--detail"}), precision({"--autocast", "bf16", "--detail"})});
  const std::string device = planner.settings().is_plan() ? "cpu" : planner.machine().device;
  planner.add_each(StudyPart::precision_error, "Errors against double precision", 0.03,
                   {precision({"--error", "--dtype", "fp32,bf16,fp16", "--low-norms", "--device", device}, 1)});
}

void add_memory(Planner& planner) {
  add_peaks(planner);
  add_timelines(planner, StudyPart::memory_step, "The memory of a training step", {Mode::step}, DType::fp32, 3);
  add_timelines(planner, StudyPart::memory_forward_loop, "The memory of repeated forward passes",
                {Mode::training_forward, Mode::forward}, DType::bf16, 6);
}

// Tiled attention over long sequences, in the edition's number types and beside its other variants.
void add_flash(Planner& planner) {
  const Edition& edition = planner.edition();
  planner.add_each(StudyPart::flash, "Tiled attention over long sequences", 0.06,
                   command_lines(planner, {.variants = edition.flash_variants,
                                           .sequences = edition.flash_sequences,
                                           .widths = edition.flash_widths,
                                           .batch = edition.flash_batch,
                                           .options = {"--dtype", joined_names(edition.flash_dtypes), "--causal",
                                                       edition.is_flash_causal ? "true" : "false"},
                                           .repeats = std::ssize(edition.flash_dtypes)}));
}

void add_attention(Planner& planner) {
  const Edition& edition = planner.edition();
  planner.add_each(StudyPart::attention_grid, "Attention: widths by sequence lengths", 0.12,
                   command_lines(planner, {.variants = {"naive"},
                                           .sequences = edition.sequences,
                                           .widths = edition.widths,
                                           .steps = edition.attention_steps}));
  add_limit(planner);
  add_accounting(planner);
  planner.add_each(
      StudyPart::ladder, "Variants that keep three, two, one and no matrices of scores", 0.06,
      command_lines(planner, {.variants = {"naive", "composite", "softmax", "weights", "recompute", "flash"},
                              .sequences = planner.machine().is_gpu() ? Lengths{1024, 4096, 8192, 16384}
                                                                      : Lengths{256, 1024, 4096}}));
  add_flash(planner);
  planner.add_each(StudyPart::compiled_attention, "Attention, compiled and not", 0.05,
                   command_lines(planner, {.variants = {"composite"},
                                           .sequences = {256, 1024, 4096, 16384},
                                           .options = {"--compile", "off,full"},
                                           .repeats = 2}));
}

void add_checkpointing(Planner& planner, DType dtype) {
  const Edition& edition = planner.edition();
  const auto rows = [&](std::vector<Mode> modes, Words more, std::int64_t count) {
    return planner.bench({.model = edition.checkpointed_model,
                          .modes = std::move(modes),
                          .dtypes = {dtype},
                          .context = edition.checkpointed_context,
                          .more = std::move(more),
                          .repeats = count});
  };
  if (edition.segments.empty()) {
    return planner.add_each(StudyPart::checkpointing, "Checkpoint policies", 0.1,
                            {rows({Mode::step}, {"--checkpoint", "none,attention,selective,block"}, 4)});
  }
  const auto segments = [&](const char* policy, const Lengths& blocks) {
    return rows({Mode::forward_backward},
                {"--checkpoint", policy, "--segment", fmt::format("{}", fmt::join(blocks, ","))}, std::ssize(blocks));
  };
  planner.add_each(StudyPart::checkpointing, "Checkpoints by the blocks of a segment, and nested", 0.1,
                   {rows({Mode::forward_backward}, {"--checkpoint", "none"}, 1), segments("block", edition.segments),
                    segments("nested", edition.nested_segments)});
}

void add_policies(Planner& planner) {
  const DType dtype = planner.machine().is_gpu() ? DType::bf16 : DType::fp32;
  std::vector<StudyCommand> compiled;
  for (const std::string& model : planner.edition().compiled_models) {
    compiled.push_back(planner.bench({.model = model,
                                      .modes = {Mode::forward, Mode::step},
                                      .dtypes = {dtype},
                                      .more = {"--compile", "off,full"},
                                      .repeats = 2}));
  }
  planner.add_each(StudyPart::compiled_model, "Whole models, compiled and not", 0.08, std::move(compiled));
  add_checkpointing(planner, dtype);
}

// Of eight cards like the one that is measured or planned, by formula.
void add_calculations(Planner& planner) {
  const Edition& edition = planner.edition();
  const Datasheet* card = find_datasheet(planner.planned_card());
  if (edition.parallel_model.empty() || card == nullptr || !card->link_bytes_per_second || !card->bf16) return;
  // An edition that divides blocks into segments asks for the best number of them by formula, at their context.
  const std::int64_t context = edition.segments.empty() ? edition.context : edition.checkpointed_context;
  const auto explained = [&](const Words& model, double seconds) -> StudyCommand {
    Words words = {"plan",    "--explain", "--card",     planner.planned_card(),
                   "--batch", "4",         "--context",  std::to_string(context),
                   "--dtype", "bf16",      "--parallel", "data=8"};
    words.insert(words.end(), model.begin(), model.end());
    return {.arguments = std::move(words), .rows = 0, .seconds = seconds, .without_card = Without::runs};
  };
  std::vector<StudyCommand> commands = {explained({"--model", edition.parallel_model}, 1)};
  if (!edition.calculated_model.empty()) commands.push_back(explained(edition.calculated_model, 8));
  planner.add_each(StudyPart::calculations, "What ranks send and keep, by formula", 0.01, std::move(commands));
}

void add_leaderboard(Planner& planner) {
  const Words& problem = planner.edition().leaderboard;
  if (problem.empty()) return;
  const bool has_ranks = std::ranges::find(problem, "--ranks") != problem.end();
  const StudyIterations iterations = planner.iterations();
  planner.add_each(StudyPart::leaderboard, "The problem of the leaderboard", 0.03,
                   {{.arguments = with_iterations(
                         planner.words(problem.front().c_str(), {problem.begin() + 1, problem.end()}), iterations),
                     .rows = 1,
                     .seconds = start_seconds(planner.machine()) +
                                flop_seconds(planner.machine(), planner.edition().leaderboard_flops) *
                                    static_cast<double>(iterations.total()),
                     .ranks = has_ranks ? planner.edition().ranks : 1}});
}

void add_ranks(Planner& planner) {
  if (planner.settings().ranks > 1) add_collectives(planner);
  if (planner.ranks() == 1) return;
  add_sharding(planner);
  add_sharded_memory(planner);
  add_data_parallel(planner);
}

}  // namespace

void add_parts(Planner& planner) {
  add_steps(planner);
  add_precision(planner);
  add_memory(planner);
  add_attention(planner);
  add_policies(planner);
  add_ranks(planner);
  add_calculations(planner);
  add_leaderboard(planner);
}

}  // namespace ridgepoint::plan
