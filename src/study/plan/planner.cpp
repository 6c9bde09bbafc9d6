#include "study/plan/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "interchange/huggingface/named_model.h"

namespace ridgepoint::plan {
namespace {

// A step of the model of most parts takes at most this share of the limit.
constexpr double kStepsOfLimit = 250;

StudyIterations iterations_for(const StudyMachine& machine, bool is_quick) {
  if (machine.is_gpu()) return is_quick ? StudyIterations{3, 10} : StudyIterations{};
  return is_quick ? StudyIterations{1, 6} : StudyIterations{2, 6};
}

Words models_for(const StudyMachine& machine) {
  if (machine.is_gpu()) return {"small", "medium", "large", "xl", "2.7b"};
  return {"tiny", "22.7m", "small", "medium", "large"};
}

// Shares of the measured rates that whole iterations reach: on a GPU small kernels do not fill the device.
constexpr double kCpuShare = 0.7;
constexpr double kGpuShare = 0.4;
constexpr double kLaunchSeconds = 1e-5;
constexpr double kLaunchesOfLayer = 60;  // forward and backward

constexpr double kScoreBytes = 4;
// Of one matrix of scores for each of the 8 matrices of a call.
double score_bytes(std::int64_t sequence) {
  return 8 * kScoreBytes * static_cast<double>(sequence) * static_cast<double>(sequence);
}

double rate(const StudyMachine& machine, DType dtype) {
  const auto found = machine.flops_per_second.find(dtype);
  const auto fp32 = machine.flops_per_second.find(DType::fp32);
  const double flops = found != machine.flops_per_second.end()  ? found->second
                       : fp32 != machine.flops_per_second.end() ? fp32->second
                                                                : 1e10;
  return flops * (machine.is_gpu() ? kGpuShare : kCpuShare);
}

}  // namespace

Planner::Planner(const StudyMachine& machine, const StudySettings& settings)
    : machine_(machine),
      settings_(settings),
      iterations_(iterations_for(machine, settings.is_quick)),
      models_(settings.models.empty() ? models_for(machine) : settings.models),
      limit_seconds_(settings.limit_seconds * (settings.ranks > 1 ? 1 - kShareOfRanks : 1)) {
  for (const std::string& model : models_) {
    if (main_model_.empty() || iteration_seconds(model, Mode::step) <= settings.limit_seconds / kStepsOfLimit)
      main_model_ = model;
    if (machine.is_gpu()) break;  // small, which the published studies have
  }
  large_model_ = main_model_;
  if (machine.is_gpu() && std::ranges::find(models_, "large") != models_.end()) large_model_ = "large";
  plan_.push_back(devices_part(settings));
}

TransformerConfig Planner::config_of(const std::string& model) const {
  std::vector<ConfigOverride> overrides;
  if (!settings_.config_overrides.empty()) overrides = parse_config_overrides(settings_.config_overrides);
  return named_model(model, overrides).config;
}

Words Planner::compared_models() const {
  Words models = {large_model_};
  if (main_model_ != large_model_) models.push_back(main_model_);
  return models;
}

double Planner::iteration_seconds(const std::string& model, Mode mode) const {
  return plan::iteration_seconds(machine_, config_of(model), mode, 4, 256, DType::fp32);
}

Words Planner::words(const char* command, const Words& more) const {
  Words all = {command, "--device", machine_.device};
  if (settings_.threads > 0) all.insert(all.end(), {"--threads", std::to_string(settings_.threads)});
  if (!settings_.memory_limit.empty()) all.insert(all.end(), {"--memory-limit", settings_.memory_limit});
  all.insert(all.end(), more.begin(), more.end());
  const auto model = std::ranges::find(more, "--model");
  if (model == more.end() || config_of(*std::next(model)).architecture.family.empty()) return all;
  // A study compares its models, so a model of a config.json has what presets have.
  constexpr std::pair<const char*, const char*> kDefaults[] = {
      {"--dtype", "fp32"}, {"--attention", "composite"}, {"--compile", "off"}, {"--batch", "4"}, {"--context", "256"}};
  for (const auto& [option, value] : kDefaults)
    if (std::ranges::find(more, option) == more.end()) all.insert(all.end(), {option, value});
  if (!settings_.config_overrides.empty()) all.insert(all.end(), {"--config-override", settings_.config_overrides});
  return all;
}

StudyCommand Planner::bench(const BenchSweep& sweep) const {
  StudyCommand command;
  command.rows = static_cast<std::int64_t>(sweep.modes.size() * sweep.dtypes.size()) * sweep.repeats;
  command.seconds = start_seconds(machine_);
  const TransformerConfig model = config_of(sweep.model);
  Words mode_names, dtype_names;
  for (const Mode mode : sweep.modes) mode_names.emplace_back(name(mode));
  for (const DType dtype : sweep.dtypes) dtype_names.emplace_back(name(dtype));
  for (const Mode mode : sweep.modes) {
    for (const DType dtype : sweep.dtypes) {
      const double iteration = plan::iteration_seconds(machine_, model, mode, 4, sweep.context, dtype);
      command.seconds += static_cast<double>(sweep.repeats) *
                         (initial_seconds(machine_, model) + iteration * static_cast<double>(iterations_.total()));
    }
  }
  Words all = {"--model",   sweep.model,
               "--mode",    fmt::format("{}", fmt::join(mode_names, ",")),
               "--dtype",   fmt::format("{}", fmt::join(dtype_names, ",")),
               "--batch",   "4",
               "--context", std::to_string(sweep.context)};
  all.insert(all.end(), sweep.more.begin(), sweep.more.end());
  command.arguments = with_iterations(words("bench", all), iterations_);
  return command;
}

void Planner::add(StudyPart part, std::string title, double share, std::vector<Choice> choices) {
  StudyPartPlan planned{part, std::move(title), {}};
  left_ += share * limit_seconds_;
  for (Choice& choice : choices) {
    auto taken = std::ranges::find_if(choice, [&](const StudyCommand& command) { return command.seconds <= left_; });
    if (taken == choice.end() && planned.commands.empty()) taken = std::prev(choice.end());
    if (taken == choice.end()) continue;
    left_ -= taken->seconds;
    planned.commands.push_back(std::move(*taken));
  }
  plan_.push_back(std::move(planned));
}

void Planner::add_each(StudyPart part, std::string title, double share, std::vector<StudyCommand> commands) {
  std::vector<Choice> choices;
  for (StudyCommand& command : commands) choices.push_back({std::move(command)});
  add(part, std::move(title), share, std::move(choices));
}

Words with_iterations(Words words, const StudyIterations& iterations) {
  words.insert(words.end(),
               {"--warmup", std::to_string(iterations.warmup), "--steps", std::to_string(iterations.steps)});
  return words;
}

double start_seconds(const StudyMachine& machine) { return machine.is_gpu() ? 2.5 : 1; }

double iteration_seconds(const StudyMachine& machine, TransformerConfig model, Mode mode, std::int64_t batch,
                         std::int64_t context, DType dtype) {
  model.context = context;
  const auto flops = static_cast<double>(Transformer(model, batch).flops(mode));
  const double launches = machine.is_gpu() ? static_cast<double>(model.layers) * kLaunchesOfLayer * kLaunchSeconds : 0;
  return std::max(flops / rate(machine, dtype), launches);
}

double initial_seconds(const StudyMachine& machine, const TransformerConfig& model) {
  constexpr double kParametersPerSecond = 5e7;
  const auto parameters = static_cast<double>(parameter_count(model));
  return machine.is_gpu() ? 0.3 + parameters / 5e9 : parameters / kParametersPerSecond;
}

bool scores_exceed_memory(const StudyMachine& machine, std::int64_t sequence) {
  return kScoreMatricesOfMemory * score_bytes(sequence) > static_cast<double>(machine.memory_bytes);
}

double attention_seconds(const StudyMachine& machine, std::int64_t width, std::int64_t sequence, bool stores_scores,
                         const StudyIterations& iterations) {
  constexpr double kPasses = 24;  // over the scores, forward and backward
  if (stores_scores && scores_exceed_memory(machine, sequence)) return 0;
  const double scores = score_bytes(sequence) / kScoreBytes;
  const double flops = (4 + 4 + 10) * scores * static_cast<double>(width);
  const double seconds = flops / rate(machine, DType::fp32) +
                         (stores_scores ? kPasses * score_bytes(sequence) / std::max(machine.bytes_per_second, 1e9)
                                        : scores * 5e-10 * (machine.is_gpu() ? 0.01 : 1));
  return seconds * static_cast<double>(iterations.total()) + 0.05;
}

}  // namespace ridgepoint::plan
