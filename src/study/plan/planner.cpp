#include "study/plan/planner.h"

#include <span>
#include <utility>

#include "interchange/huggingface/named_model.h"
#include "predict/cards/datasheet.h"

namespace ridgepoint::plan {
namespace {

// No other part takes this share of the limit: the last two run in any case.
constexpr double kShareOfLast = 0.06;

// A step of the model of most parts takes at most this share of the limit.
constexpr double kStepsOfLimit = 250;

StudyIterations iterations_for(const StudyMachine& machine, bool is_quick) {
  if (machine.is_gpu()) return is_quick ? StudyIterations{3, 10} : StudyIterations{};
  return is_quick ? StudyIterations{1, 6} : StudyIterations{2, 6};
}

// The shares of the measured rates that whole iterations reach: on a GPU small kernels do not fill the device.
constexpr double kCpuShare = 0.7;
constexpr double kGpuShare = 0.4;
constexpr double kLaunchSeconds = 1e-5;
constexpr double kLaunchesOfLayer = 60;  // forward and backward

constexpr double kScoreBytes = 4;
// Of one matrix of scores for each matrix of a call.
double score_bytes(const AttentionCall& call) {
  const auto sequence = static_cast<double>(call.sequence);
  return static_cast<double>(call.batch) * kScoreBytes * sequence * sequence;
}

// Of parameters, and where the mode has them gradients and two moments, in fp32.
std::int64_t state_bytes(std::int64_t parameters, std::span<const Mode> modes) {
  const auto has = [&](Mode mode) { return std::ranges::find(modes, mode) != modes.end(); };
  return parameters * (has(Mode::step) ? 16 : has(Mode::forward_backward) ? 8 : 4);
}

// The edition of the settings, with the models that they name.
Edition edition_of(const StudyMachine& machine, const StudySettings& settings) {
  Edition edition = edition_named(settings.like, machine);
  if (settings.models.empty()) return edition;
  edition.models = settings.models;
  if (machine.is_gpu()) edition.memory_models = {settings.models.front()};
  if (machine.is_gpu() && settings.models.size() > 1) edition.memory_models.push_back(settings.models.back());
  return edition;
}

// The card for rows that are planned. Without an edition, a study plans only if the user asks for it.
std::string card_to_plan_for(const StudyMachine& machine, const StudySettings& settings, const Edition& edition) {
  if (!settings.card.empty()) return settings.card;
  if (edition.card.empty()) return "";
  const Datasheet* sheet = find_datasheet(machine.name);
  return std::string(sheet != nullptr ? sheet->card : machine.is_gpu() ? "" : edition.card);
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
      edition_(edition_of(machine, settings)),
      iterations_(iterations_for(machine, settings.is_quick)),
      planned_card_(card_to_plan_for(machine, settings, edition_)),
      limit_seconds_(settings.limit_seconds * (settings.ranks > 1 ? 1 - kShareOfRanks : 1)) {
  // On a processor, the largest model that it can run many times, which may be smaller than those of a course. On a
  // GPU the smallest, which the published studies have.
  Words models = edition_.models;
  if (!machine.is_gpu() && !edition_.name.empty()) models.insert(models.begin(), {"tiny", "22.7m"});
  for (const std::string& model : models) {
    if (main_model_.empty() || iteration_seconds(model, Mode::step) <= settings.limit_seconds / kStepsOfLimit)
      main_model_ = model;
    if (machine.is_gpu()) break;
  }
  large_model_ = main_model_;
  if (machine.is_gpu() && std::ranges::find(models, "large") != models.end()) large_model_ = "large";
  const auto fill = [](Words& named, const Words& usual) {
    if (named.empty()) named = usual;
  };
  fill(edition_.compiled_models, compared_models());
  fill(edition_.profiled_models, {main_model_});
  fill(edition_.memory_models, {main_model_});
  if (edition_.timeline_model.empty()) edition_.timeline_model = main_model_;
  if (edition_.checkpointed_model.empty()) edition_.checkpointed_model = large_model_;
  if (!settings.is_plan()) plan_.push_back(devices_part(settings));
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

double Planner::iteration_seconds(const std::string& model, Mode mode, std::int64_t context, DType dtype) const {
  constexpr std::int64_t kBatch = 4;
  TransformerConfig config = config_of(model);
  config.context = context > 0 ? context : edition_.context;
  const auto [flops, is_new] = flops_.try_emplace({model, mode, config.context});
  if (is_new) flops->second = static_cast<double>(Transformer(config, kBatch).flops(mode));
  const double launches =
      machine_.is_gpu() ? static_cast<double>(config.layers) * kLaunchesOfLayer * kLaunchSeconds : 0;
  return std::max(flops->second / rate(machine_, dtype), launches);
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
  const TransformerConfig model = config_of(sweep.model);
  const std::int64_t context = sweep.context > 0 ? sweep.context : edition_.context;
  StudyCommand command{.arguments = {},
                       .rows = static_cast<std::int64_t>(sweep.modes.size() * sweep.dtypes.size()) * sweep.repeats,
                       .seconds = start_seconds(machine_),
                       .bytes = state_bytes(parameter_count(model), sweep.modes)};
  for (const Mode mode : sweep.modes) {
    for (const DType dtype : sweep.dtypes) {
      const double iteration = iteration_seconds(sweep.model, mode, context, dtype);
      command.seconds += static_cast<double>(sweep.repeats) *
                         (initial_seconds(machine_, model) + iteration * static_cast<double>(iterations_.total()));
    }
  }
  Words all = {"--model", sweep.model, "--mode",    joined_names(sweep.modes), "--dtype", joined_names(sweep.dtypes),
               "--batch", "4",         "--context", std::to_string(context)};
  all.insert(all.end(), sweep.more.begin(), sweep.more.end());
  command.arguments = with_iterations(words("bench", all), iterations_);
  return command;
}

StudyCommand Planner::memory(const std::string& model, std::int64_t context, const std::vector<Mode>& modes) const {
  const TransformerConfig config = config_of(model);
  const auto rows = static_cast<std::int64_t>(2 * modes.size());
  StudyCommand command{
      .arguments = with_iterations(words("memory", {"--model", model, "--mode", joined_names(modes), "--dtype",
                                                    "fp32,bf16", "--context", std::to_string(context)}),
                                   {1, 1}),
      .rows = rows,
      .seconds = start_seconds(machine_) + static_cast<double>(rows) * initial_seconds(machine_, config),
      .bytes = state_bytes(parameter_count(config), modes)};
  for (const Mode mode : modes)
    for (const DType dtype : {DType::fp32, DType::bf16})
      command.seconds += 2 * iteration_seconds(model, mode, context, dtype);
  return command;
}

bool Planner::fits(const StudyCommand& command) const {
  if (command.without_card == StudyCommand::WithoutCard::runs) return true;  // it takes seconds at most
  if (settings_.is_plan()) return false;
  return command.seconds <= left_ && command.ranks <= settings_.ranks &&
         (machine_.is_gpu() || command.bytes < machine_.memory_bytes);
}

std::optional<StudyCommand> Planner::planned(const StudyCommand& command) const {
  if (planned_card_.empty() || command.without_card != StudyCommand::WithoutCard::is_planned) return std::nullopt;
  const std::string& verb = command.arguments.front();
  const bool predicts_time = verb == "bench";
  StudyCommand twin{
      .arguments = {predicts_time ? "plan" : verb, "--card", planned_card_}, .rows = command.rows, .seconds = 0.2};
  for (std::size_t i = 1; i < command.arguments.size(); ++i) {
    const std::string& word = command.arguments[i];
    const bool is_of_this_machine = word == "--device" || word == "--threads" || word == "--ranks" ||
                                    (word == "--memory-limit" && settings_.memory_limit.empty());
    const bool is_of_runs = predicts_time && (word == "--warmup" || word == "--steps");
    if (is_of_this_machine || is_of_runs) {
      ++i;  // with its value
    } else {
      twin.arguments.push_back(word);
    }
  }
  return twin;
}

void Planner::add(StudyPart part, std::string title, double share, std::vector<Choice> choices) {
  StudyPartPlan part_plan{part, std::move(title), {}};
  double spent = 0;
  for (const StudyPartPlan& earlier : plan_) spent += earlier.seconds();
  double limit = part < StudyPart::collectives ? limit_seconds_ : settings_.limit_seconds;
  if (part < StudyPart::compiled_model) limit -= kShareOfLast * limit_seconds_;
  left_ = std::min(left_ + share * limit_seconds_, limit - spent);
  for (Choice& choice : choices) {
    auto taken = std::ranges::find_if(choice, [&](const StudyCommand& command) { return fits(command); });
    std::optional<StudyCommand> instead;  // of all rows of the choice, unless they are measured
    if (taken != choice.begin()) instead = planned(choice.front());
    const bool must_run = !instead && part_plan.commands.empty() && !settings_.is_plan();
    if (taken == choice.end() && must_run && choice.back().ranks <= settings_.ranks) taken = std::prev(choice.end());
    if (taken != choice.end()) {
      left_ -= taken->seconds;
      part_plan.commands.push_back(std::move(*taken));
    }
    if (instead) part_plan.commands.push_back(std::move(*instead));
  }
  if (!part_plan.commands.empty()) plan_.push_back(std::move(part_plan));
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

double initial_seconds(const StudyMachine& machine, const TransformerConfig& model) {
  constexpr double kParametersPerSecond = 5e7;
  const auto parameters = static_cast<double>(parameter_count(model));
  return machine.is_gpu() ? 0.3 + parameters / 5e9 : parameters / kParametersPerSecond;
}

bool scores_exceed_memory(const StudyMachine& machine, const AttentionCall& call) {
  return call.stores_scores && kScoreMatricesOfMemory * score_bytes(call) > static_cast<double>(machine.memory_bytes);
}

double flop_seconds(const StudyMachine& machine, double flops) {
  return flops / rate(machine, machine.is_gpu() ? DType::bf16 : DType::fp32);
}

double attention_seconds(const StudyMachine& machine, const AttentionCall& call, const StudyIterations& iterations) {
  constexpr double kPasses = 24;  // over the scores, forward and backward
  if (scores_exceed_memory(machine, call)) return 0;
  const double scores = score_bytes(call) / kScoreBytes;
  const double flops = (4 + 4 + 10) * scores * static_cast<double>(call.width);
  const double seconds = flops / rate(machine, DType::fp32) +
                         (call.stores_scores ? kPasses * score_bytes(call) / std::max(machine.bytes_per_second, 1e9)
                                             : scores * 5e-10 * (machine.is_gpu() ? 0.01 : 1));
  return seconds * static_cast<double>(iterations.total()) + 0.05;
}

}  // namespace ridgepoint::plan
