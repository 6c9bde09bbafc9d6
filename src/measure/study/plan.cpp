#include "measure/study/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "measure/study/predicted_seconds.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"
#include "ridgepoint/precision.h"

namespace ridgepoint {
namespace {

using Words = std::vector<std::string>;
using Choice = std::vector<StudyCommand>;

class Planner {
 public:
  Planner(const StudyMachine& machine, const StudySettings& settings) : machine_(machine), settings_(settings) {
    if (!machine.is_gpu()) iterations_ = settings.is_quick ? StudyIterations{1, 6} : StudyIterations{2, 6};
    if (machine.is_gpu() && settings.is_quick) iterations_ = {3, 10};
    models_ = settings.models;
    if (models_.empty()) {
      models_ = machine.is_gpu() ? Words{"small", "medium", "large", "xl", "2.7b"}
                                 : Words{"tiny", "22.7m", "small", "medium", "large"};
    }
    for (const std::string& model : models_) {
      if (main_.empty() || seconds_of_step(model) <= settings.limit_seconds / kStepsOfLimit) main_ = model;
      if (machine.is_gpu()) break;  // small, which the published studies have
    }
    big_ = main_;
    if (machine.is_gpu() && std::ranges::find(models_, "large") != models_.end()) big_ = "large";
  }

  std::vector<StudyPartPlan> plan() {
    plan_.push_back(devices_part(settings_));
    add_steps();
    add_profile();
    add_precision();
    add_memory();
    add_attention();
    add_compiled();
    add_checkpointing();
    return std::move(plan_);
  }

 private:
  // A step of the model of most parts takes at most this share of the limit.
  static constexpr double kStepsOfLimit = 250;

  double seconds_of_step(const std::string& model) const {
    return iteration_seconds(machine_, model, Mode::step, 4, 256, DType::fp32);
  }

  Words words(const char* command, Words more) const {
    Words all = {command, "--device", machine_.device};
    if (settings_.threads > 0) all.insert(all.end(), {"--threads", std::to_string(settings_.threads)});
    if (!settings_.memory_limit.empty()) all.insert(all.end(), {"--memory-limit", settings_.memory_limit});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Words with_iterations(Words words, const StudyIterations& iterations) const {
    words.insert(words.end(),
                 {"--warmup", std::to_string(iterations.warmup), "--steps", std::to_string(iterations.steps)});
    return words;
  }

  // Of each choice the first command line that fits into what is left of the part's share of the limit, and of the
  // shares of earlier parts. The first choice has a command line in any case.
  void add(StudyPart part, std::string title, double share, std::vector<Choice> choices) {
    StudyPartPlan planned{part, std::move(title), {}};
    left_ += share * settings_.limit_seconds;
    for (Choice& choice : choices) {
      auto taken = std::ranges::find_if(choice, [&](const StudyCommand& command) { return command.seconds <= left_; });
      if (taken == choice.end() && planned.commands.empty()) taken = std::prev(choice.end());
      if (taken == choice.end()) continue;
      left_ -= taken->seconds;
      planned.commands.push_back(std::move(*taken));
    }
    plan_.push_back(std::move(planned));
  }
  static std::vector<Choice> one_each(std::vector<StudyCommand> commands) {
    std::vector<Choice> choices;
    for (StudyCommand& command : commands) choices.push_back({std::move(command)});
    return choices;
  }

  // One command line of `bench` for the product of these, with more options.
  StudyCommand bench(const std::string& model, const std::vector<Mode>& modes, const std::vector<DType>& dtypes,
                     const std::vector<std::int64_t>& contexts, Words more = {}, std::int64_t repeats = 1) const {
    StudyCommand command;
    command.rows = static_cast<std::int64_t>(modes.size() * dtypes.size() * contexts.size()) * repeats;
    double seconds = start_seconds(machine_);
    Words mode_names, dtype_names;
    for (const Mode mode : modes) mode_names.emplace_back(name(mode));
    for (const DType dtype : dtypes) dtype_names.emplace_back(name(dtype));
    for (const Mode mode : modes) {
      for (const DType dtype : dtypes) {
        for (const std::int64_t context : contexts) {
          seconds += static_cast<double>(repeats) *
                     (initial_seconds(machine_, model) + iteration_seconds(machine_, model, mode, 4, context, dtype) *
                                                             static_cast<double>(iterations_.total()));
        }
      }
    }
    Words all = {"--model",   model,
                 "--mode",    fmt::format("{}", fmt::join(mode_names, ",")),
                 "--dtype",   fmt::format("{}", fmt::join(dtype_names, ",")),
                 "--batch",   "4",
                 "--context", fmt::format("{}", fmt::join(contexts, ","))};
    all.insert(all.end(), more.begin(), more.end());
    command.arguments = with_iterations(words("bench", std::move(all)), iterations_);
    command.seconds = seconds;
    return command;
  }

  void add_steps() {
    std::vector<Choice> sizes;
    for (const std::string& model : models_) {
      sizes.push_back({bench(model, {Mode::forward, Mode::backward, Mode::step}, {DType::fp32, DType::bf16}, {256}),
                       bench(model, {Mode::forward, Mode::step}, {DType::fp32}, {256}),
                       bench(model, {Mode::forward}, {DType::fp32}, {256})});
    }
    add(StudyPart::sizes, "Step benchmark over sizes, modes and number types", 0.2, std::move(sizes));

    std::vector<StudyCommand> warmups;
    for (const std::int64_t warmup : {0, 1, 2, 5}) {
      StudyCommand command = bench(main_, {Mode::forward}, {DType::fp32}, {256});
      command.arguments =
          words("bench", {"--model", main_, "--mode", "forward", "--warmup", std::to_string(warmup), "--steps", "10"});
      command.seconds =
          start_seconds(machine_) + initial_seconds(machine_, main_) +
          iteration_seconds(machine_, main_, Mode::forward, 4, 256, DType::fp32) * static_cast<double>(warmup + 10);
      warmups.push_back(std::move(command));
    }
    add(StudyPart::warmup, "Warm-up: each row in a new process", 0.06, one_each(std::move(warmups)));

    std::vector<StudyCommand> contexts;
    for (const std::int64_t context : {128, 256, 512, 1024}) {
      contexts.push_back(bench(main_, {Mode::forward, Mode::step}, {DType::fp32}, {context}));
    }
    add(StudyPart::contexts, "One model over context lengths", 0.1, one_each(std::move(contexts)));
  }

  void add_profile() {
    const double steps = 3 + static_cast<double>(iterations_.total());
    StudyCommand command{
        .arguments = with_iterations(words("profile", {"--model", main_, "--mode", "forward,step"}), iterations_),
        .rows = 2};
    command.seconds =
        start_seconds(machine_) + 2 * initial_seconds(machine_, main_) +
        steps * (iteration_seconds(machine_, main_, Mode::forward, 4, 256, DType::fp32) + seconds_of_step(main_));
    add(StudyPart::profile, "Kernels: forward against a training step", 0.1, {{std::move(command)}});
  }

  void add_precision() {
    add(StudyPart::accumulation, "Sums of a thousand terms", 0.01,
        one_each({{.arguments = {"precision"}, .rows = 0, .seconds = 0.1}}));
    std::vector<StudyCommand> autocast;
    for (const char* dtype : {"fp16", "bf16"})
      autocast.push_back({.arguments = {"precision", "--autocast", dtype}, .rows = 0, .seconds = 0.1});
    add(StudyPart::autocast, "Types under autocast", 0.01, one_each(std::move(autocast)));
    Words error = {"precision", "--error", "--dtype", "fp32,bf16,fp16"};
    error.insert(error.end(), {"--device", machine_.device});
    add(StudyPart::precision_error, "Errors against double precision", 0.03,
        one_each({{.arguments = error, .rows = 0, .seconds = 1}}));
  }

  void add_memory() {
    std::vector<StudyCommand> peaks;
    const auto peaks_of = [&](const std::string& model, std::int64_t context) {
      StudyCommand command{.arguments = words("memory", {"--model", model, "--mode", "forward,training_forward,step",
                                                         "--dtype", "fp32,bf16", "--context", std::to_string(context),
                                                         "--warmup", "1", "--steps", "1"}),
                           .rows = 6};
      command.seconds = start_seconds(machine_) + 6 * initial_seconds(machine_, model);
      for (const Mode mode : {Mode::forward, Mode::training_forward, Mode::step})
        for (const DType dtype : {DType::fp32, DType::bf16})
          command.seconds += 2 * iteration_seconds(machine_, model, mode, 4, context, dtype);
      return command;
    };
    for (const std::int64_t context : {128, 256, 512}) peaks.push_back(peaks_of(main_, context));
    if (machine_.is_gpu() && models_.back() != main_) {
      for (const std::int64_t context : {128, 256, 512}) peaks.push_back(peaks_of(models_.back(), context));
    }
    add(StudyPart::memory_peaks, "Peaks by context, mode and number type", 0.1, one_each(std::move(peaks)));

    add_timeline(StudyPart::memory_step, "The memory of a training step", {"--mode", "step", "--dtype", "fp32"}, 3);
    add_timeline(StudyPart::memory_forward_loop, "The memory of repeated forward passes",
                 {"--mode", "training_forward", "--dtype", "bf16"}, 6);
  }

  void add_timeline(StudyPart part, const char* title, const Words& options, std::int64_t steps) {
    Words all = {"--model", main_};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--warmup", "1", "--steps", std::to_string(steps), "--timeline",
                           fmt::format("{{folder}}/timelines/{0}.csv,{{folder}}/pictures/{0}.svg", name(part))});
    StudyCommand command{.arguments = words("memory", std::move(all)), .rows = 1};
    command.seconds = start_seconds(machine_) + initial_seconds(machine_, main_) +
                      static_cast<double>(1 + steps) * seconds_of_step(main_);
    add(part, title, 0.03, {{std::move(command)}});
  }

  // A command line of `attention` for each sequence, so that the long ones can be left out.
  std::vector<StudyCommand> calls(const Words& options, const std::vector<std::int64_t>& widths,
                                  const std::vector<std::int64_t>& sequences, bool stores_scores,
                                  std::int64_t repeats = 1) const {
    const StudyIterations iterations = machine_.is_gpu() ? StudyIterations{5, 20} : StudyIterations{1, 5};
    std::vector<StudyCommand> commands;
    Words width_words;
    for (const std::int64_t width : widths) width_words.push_back(std::to_string(width));
    for (const std::int64_t sequence : sequences) {
      Words all = options;
      all.insert(all.end(), {"--d-model", fmt::format("{}", fmt::join(width_words, ",")), "--sequence",
                             std::to_string(sequence), "--batch", "8", "--heads", "1"});
      if (stores_scores && scores_exceed_memory(machine_, sequence)) limit_host_memory(all);
      StudyCommand command{.arguments = with_iterations(words("attention", std::move(all)), iterations),
                           .rows = static_cast<std::int64_t>(widths.size()) * repeats,
                           .seconds = start_seconds(machine_) / 2};
      for (const std::int64_t width : widths) {
        command.seconds +=
            static_cast<double>(repeats) * attention_seconds(machine_, width, sequence, stores_scores, iterations);
      }
      commands.push_back(std::move(command));
    }
    return commands;
  }

  // What does not fit fails at its first matrix of scores: otherwise the host would fill all of its memory first, and
  // take minutes to compute in what it has.
  void limit_host_memory(Words& words) const {
    if (machine_.is_gpu() || !settings_.memory_limit.empty()) return;
    const std::int64_t limit = machine_.memory_bytes / kScoreMatricesOfMemory;
    words.insert(words.end(), {"--memory-limit", fmt::format("{}MiB", limit >> 20)});
  }

  void add_attention() {
    const std::vector<std::int64_t> lengths = {256, 1024, 4096, 8192, 16384};
    add(StudyPart::attention_grid, "Attention: widths by sequence lengths", 0.12,
        one_each(calls({"--attention", "naive"}, {16, 32, 64, 128}, lengths, true)));
    // On a CPU a small limit keeps the longest sequence short enough to run.
    Words limit = {"attention",   "--device",        machine_.device, "--oom",
                   "--attention", "naive,composite", "--d-model",     "64"};
    if (!settings_.memory_limit.empty()) {
      limit.insert(limit.end(), {"--memory-limit", settings_.memory_limit});
    } else if (!machine_.is_gpu()) {
      limit.insert(limit.end(), {"--memory-limit", "512MiB"});
    }
    add(StudyPart::attention_limit, "The longest sequence that fits", 0.04,
        one_each({{.arguments = limit, .rows = 0, .seconds = 5}}));
    const std::string accounted = machine_.is_gpu() ? "16384" : "1024";
    add(StudyPart::accounting, "What attention allocates", 0.02,
        one_each({{.arguments = words(
                       "attention", {"--account", "--attention", "naive", "--d-model", "64", "--sequence", accounted}),
                   .rows = 0,
                   .seconds = 1}}));
    add(StudyPart::ladder, "Variants that keep three, two, one and no matrices of scores", 0.06,
        one_each(calls({"--attention", "naive,composite,softmax,weights,recompute,flash"}, {64},
                       machine_.is_gpu() ? std::vector<std::int64_t>{1024, 4096, 8192, 16384}
                                         : std::vector<std::int64_t>{256, 1024, 4096},
                       true, 6)));
    std::vector<std::int64_t> long_ones = {1024, 4096, 8192, 16384, 32768, 65536};
    add(StudyPart::flash, "Tiled attention over long sequences", 0.06,
        one_each(calls({"--attention", "flash"}, {64}, long_ones, false)));
  }

  void add_compiled() {
    add(StudyPart::compiled_attention, "Attention, compiled and not", 0.05,
        one_each(
            calls({"--attention", "composite", "--compile", "off,full"}, {64}, {256, 1024, 4096, 16384}, true, 2)));
    const DType dtype = machine_.is_gpu() ? DType::bf16 : DType::fp32;
    std::vector<StudyCommand> models = {
        bench(big_, {Mode::forward, Mode::step}, {dtype}, {256}, {"--compile", "off,full"}, 2)};
    if (big_ != main_)
      models.push_back(bench(main_, {Mode::forward, Mode::step}, {dtype}, {256}, {"--compile", "off,full"}, 2));
    add(StudyPart::compiled_model, "Whole models, compiled and not", 0.08, one_each(std::move(models)));
  }

  void add_checkpointing() {
    const DType dtype = machine_.is_gpu() ? DType::bf16 : DType::fp32;
    add(StudyPart::checkpointing, "Checkpoint policies", 0.1,
        one_each({bench(big_, {Mode::step}, {dtype}, {256}, {"--checkpoint", "none,attention,selective,block"}, 4)}));
  }

  const StudyMachine& machine_;
  const StudySettings& settings_;
  StudyIterations iterations_;
  std::vector<std::string> models_;
  std::string main_, big_;  // the model of most parts, and that of compilation and checkpointing
  double left_ = 0;         // seconds
  std::vector<StudyPartPlan> plan_;
};

}  // namespace

StudyMachine study_machine(const std::vector<Json>& rows, std::string_view device) {
  const auto is_device = [&](const Json& row) {
    const auto kind = row.find("kind");
    return kind != row.end() && (*kind == device || (device == "cuda:0" && *kind == "cuda"));
  };
  const auto row = std::ranges::find_if(rows, is_device);
  if (row == rows.end()) throw Error(fmt::format("the devices that were found do not have '{}'", device));
  if (row->contains("problem")) throw Error(fmt::format("{}: {}", device, (*row)["problem"].get<std::string>()));
  StudyMachine machine;
  machine.device = device;
  machine.name = row->value("name", "");
  machine.memory_bytes = row->value("total_memory_bytes", std::int64_t{0});
  if (row->contains("copy")) machine.bytes_per_second = (*row)["copy"].value("bytes_per_second", 0.0);
  if (!row->contains("matmul")) return machine;
  for (const Json& rate : (*row)["matmul"])
    machine.flops_per_second[dtype_from_name(rate["dtype"].get<std::string>())] =
        rate["flops_per_second"].get<double>();
  return machine;
}

std::int64_t StudyPartPlan::rows() const {
  std::int64_t rows = 0;
  for (const StudyCommand& command : commands) rows += command.rows;
  return rows;
}

double StudyPartPlan::seconds() const {
  double seconds = 0;
  for (const StudyCommand& command : commands) seconds += command.seconds;
  return seconds;
}

StudyPartPlan devices_part(const StudySettings& settings) {
  StudyCommand command{.arguments = {"devices"}, .rows = 0, .seconds = 3};
  if (settings.threads > 0)
    command.arguments.insert(command.arguments.end(), {"--threads", std::to_string(settings.threads)});
  return {StudyPart::devices, "Devices and their measured rates", {std::move(command)}};
}

std::vector<StudyPartPlan> plan_study(const StudyMachine& machine, const StudySettings& settings) {
  return Planner(machine, settings).plan();
}

}  // namespace ridgepoint
