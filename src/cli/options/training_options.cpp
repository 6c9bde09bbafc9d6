#include "cli/options/training_options.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "cli/commands/command.h"
#include "cli/options/axis_kinds.h"
#include "core/types/enum_names.h"
#include "interchange/huggingface/weights/stored_weights.h"
#include "ridgepoint/optimizer.h"

namespace ridgepoint::cli {
namespace {

constexpr const char* kTraining = "Training";
using D = RunDraft;
using Text = const std::string&;

void check_momentum(double value) {
  if (value >= 0 && value < 1) return;
  throw Error(fmt::format("'{}' is out of range; the momentum is at least 0 and less than 1", value), ErrorKind::usage);
}

void check_weight_decay(double value) {
  if (value >= 0) return;
  throw Error(fmt::format("'{}' is out of range; the weight decay is at least 0", value), ErrorKind::usage);
}

// What a help text says of the optimizers that have a hyperparameter: "adamw: 0.01, sgd: 0".
template <typename Describe>
std::string optimizers_with(std::string_view hyperparameter, const Describe& describe) {
  std::vector<std::string> texts;
  for (const Optimizer one : kAllOptimizers)
    if (OptimizerOptions{.kind = one}.find(hyperparameter)) texts.push_back(describe(one));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string formulas() {
  return optimizers_with("learning_rate",
                         [](Optimizer one) { return fmt::format("{}: {}", name(one), traits(one).formula); });
}
std::string with_momentum() {
  return optimizers_with("momentum", [](Optimizer one) { return std::string(name(one)); });
}
std::string weight_decays() {
  return optimizers_with("weight_decay", [](Optimizer one) {
    return fmt::format("{}: {:g}", name(one), *OptimizerOptions{.kind = one}.find("weight_decay"));
  });
}

void settle_optimizer(RunDraft& draft) {
  OptimizerOptions& optimizer = draft.config.compile.optimizer;
  require(!draft.momentum || optimizer.find("momentum"),
          fmt::format("--momentum belongs to {0}, and {1} has none; add --optimizer {0}", with_momentum(),
                      name(optimizer.kind)));
  if (draft.momentum) optimizer.hyperparameters["momentum"] = *draft.momentum;
  if (draft.weight_decay) optimizer.hyperparameters["weight_decay"] = *draft.weight_decay;
}

void check_patterns(const Graph& graph, std::string_view flag, const CompileOptions& options) {
  try {
    count_parameters(graph, options);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()), ErrorKind::usage);
  }
}

// One setting; the text is not a list of them.
template <typename Read>
Axis single_axis(std::string flag, std::string type_name, std::string help, Read read) {
  const auto parse = [read](std::string_view text) { return std::vector<Axis::Setting>{read(text)}; };
  return {std::move(flag), kTraining, std::move(type_name), std::move(help), parse, ""};
}

Axis frozen_axis() {
  return single_axis("--frozen", "NAMES",
                     "parameters without gradients and states, by names of modules or parameters; * stands for any "
                     "text: token_embeddings,layers.0,ln*",
                     [](std::string_view text) {
                       return [patterns = split_list(text)](D& d) { d.config.compile.frozen = patterns; };
                     });
}

Axis lora_axis() {
  return single_axis("--lora", "KEYS",
                     "low-rank adapters of linear layers; every other parameter is frozen: "
                     "r=16,alpha=32,targets=q_proj,v_proj [alpha: r]",
                     [](std::string_view text) {
                       return [options = lora_from_text(text)](D& d) { d.config.compile.lora = options; };
                     });
}

}  // namespace

double parse_real(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && std::isfinite(value)) return value;
  throw Error(fmt::format("'{}' is not a number; write it as 0.9 or 1e-2", text), ErrorKind::usage);
}

std::vector<Axis> training_axes() {
  std::vector<Axis> axes;
  axes.push_back(choice_axis("--optimizer", kTraining, "adamw", {names_of(kAllOptimizers), {}},
                             fmt::format("optimizer of --mode step ({})", formulas()),
                             [](D& d, Text v) { d.config.compile.optimizer.kind = optimizer_from_name(v); }));
  axes.push_back(real_axis("--momentum", kTraining,
                           fmt::format("momentum of {}, at least 0 and less than 1 [0: no buffer]", with_momentum()),
                           check_momentum, [](D& d, double v) { d.momentum = v; }));
  axes.push_back(real_axis("--weight-decay", kTraining, fmt::format("weight decay [{}]", weight_decays()),
                           check_weight_decay, [](D& d, double v) { d.weight_decay = v; }));
  axes.push_back(choice_axis("--master-weights", kTraining, "on", {{"on", "off"}, {}},
                             "fp32 parameters, gradients and moments beside bf16 weights (off: all are bf16, as after "
                             "model.to(torch.bfloat16))",
                             [](D& d, Text v) { d.config.compile.master_weights = v == "on"; }));
  axes.push_back(number_axis("--accumulate", kTraining, "1", {1, 1024, parse_integer},
                             "micro-batches of --batch sequences whose gradients are added before the optimizer runs",
                             [](D& d, std::int64_t v) { d.config.compile.accumulate = v; }));
  axes.push_back(frozen_axis());
  axes.push_back(lora_axis());
  return axes;
}

void settle_training(RunDraft& draft) {
  settle_optimizer(draft);
  const CompileOptions& compile = draft.config.compile;
  const Precision precision = compile.precision;
  require(compile.master_weights || precision == Precision::bf16 || precision == Precision::fp8,
          fmt::format("--master-weights off stores parameters in bf16; add --dtype bf16 or fp8 instead of {}",
                      name(precision)));
  require(compile.accumulate == 1 || runs_backward(compile.mode),
          fmt::format("--accumulate adds gradients, and --mode {} has none; use backward or step", name(compile.mode)));
  const bool is_chosen = draft.config.choose_sharding;
  const bool shards = compile.parallel.shard != Sharding::none;
  require((!shards && !is_chosen) || compile.parallel.is_parallel(),
          "--shard divides what ranks keep, and there is one rank; add --parallel data=2");
  require(
      !shards || compile.parallel.shard == Sharding::parameters || compile.mode == Mode::step,
      fmt::format("--shard divides the states of the optimizer, and --mode {} has none; use step", name(compile.mode)));
  require(!draft.config.network || compile.parallel.is_parallel(),
          "--network connects ranks, and there is one rank; add --parallel data=2");
  require(!draft.config.choose_bucket || compile.checkpoint != Checkpoint::automatic,
          "--checkpoint auto and bucket=auto would plan for minutes together; give the size of a bucket, or a policy");
  if (compile.frozen.empty() && !compile.lora) return;
  const auto* model = dynamic_cast<const Transformer*>(draft.config.workload.get());
  if (model != nullptr && draft.config.compile.lora)
    draft.config.compile.lora->published = published_layers(model->config());
  const Graph graph = draft.config.workload->build();
  check_patterns(graph, "--frozen", {.frozen = compile.frozen});
  check_patterns(graph, "--lora", {.lora = compile.lora});
}

}  // namespace ridgepoint::cli
