#include "cli/options/run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <set>

#include "cli/options/card.h"
#include "cli/options/sweep.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/messages.h"
#include "core/text/words.h"
#include "interchange/huggingface/named_model.h"
#include "interchange/huggingface/weights/published_weights.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

void require_size(const std::optional<std::int64_t>& size, std::string_view flag) {
  if (size) return;
  refuse("a model without a preset also needs {}; or add a preset: --model small", flag);
}

constexpr std::string_view kDefaultModel = "tiny";

bool is_given(const Axis& axis) { return axis.option != nullptr && axis.option->count() > 0; }

std::string first_flag(const Axis& axis) { return axis.text.flags.substr(0, axis.text.flags.find(',')); }

// What one axis changes, a change a row. Errors begin with its flag.
std::vector<Axis::Change> changes_of(const Axis& axis) {
  if (axis.given.empty() && !is_given(axis)) return {};
  return parse_option(first_flag(axis), axis.given, axis.changes);
}

bool is_preset_name(std::string_view name) {
  return std::ranges::find(transformer_presets(), name, &TransformerConfig::name) != transformer_presets().end();
}

// Of a network with a gate: as many parameters as 4 d_model have without one, in whole tiles.
std::int64_t usual_d_ff(std::int64_t d_model) {
  constexpr std::int64_t kTile = 64;
  d_model = std::min(d_model, std::numeric_limits<std::int64_t>::max() / 16);  // larger ones are refused later
  const std::int64_t tiles = (d_model / 3 * 8 + d_model % 3 * 8 / 3 + kTile / 2) / kTile;
  return std::max<std::int64_t>(tiles, 1) * kTile;
}

ModelConfig source_of(const RunDraft& draft) {
  std::vector<ConfigOverride> overrides;
  if (!draft.config_overrides.empty())
    overrides = parse_option("--config-override", draft.config_overrides, parse_config_overrides);
  return named_model(draft.model_name.empty() ? kDefaultModel : draft.model_name, overrides);
}

bool divides_the_batch(const RunDraft& draft) {
  return draft.config.compile.parallel.is_parallel() || draft.config.compile.accumulate > 1;
}

bool has_tensors_on_host(const RunDraft& draft) { return draft.config.compile.offload != Offload::none; }
bool may_offload_states(const RunDraft& draft) {
  return includes(draft.config.compile.offload, Offload::optimizer | Offload::automatic);
}

// It is no mean over tokens, so that the losses of parts do not add up to that of the whole.
constexpr std::string_view kBalancedApart =
    "the load-balancing loss is that of the tokens of each rank and micro-batch, as in PyTorch, so the gradients are "
    "not those of one joined batch";

std::vector<std::string_view> optimizers_with(std::string_view hyperparameter) {
  std::vector<std::string_view> names;
  for (const Optimizer one : kAllOptimizers)
    if (OptimizerOptions{.kind = one}.find(hyperparameter)) names.push_back(name(one));
  return names;
}

void settle_optimizer(RunDraft& draft) {
  OptimizerOptions& optimizer = draft.config.compile.optimizer;
  require(!draft.momentum || optimizer.find("momentum"),
          "--momentum belongs to {0}, and {1} has none; add --optimizer {0}",
          fmt::join(optimizers_with("momentum"), ", "), name(optimizer.kind));
  if (draft.momentum) optimizer.hyperparameters.push_back({"momentum", *draft.momentum});
  if (draft.weight_decay) optimizer.hyperparameters.push_back({"weight_decay", *draft.weight_decay});
}

void check_patterns(const Graph& graph, std::string_view flag, const CompileOptions& options) {
  try {
    count_parameters(graph, options);
  } catch (const Error& error) {
    refuse("{}: {}", flag, error.what());
  }
}

void require_output_is_kept_by_torch(const RunConfig& config) {
  require(!config.keeps_output || config.plan_as != PlanAs::ridgepoint,
          "--keep-output is about a loop in PyTorch, and this engine frees what an iteration leaves before the next "
          "one begins; add --as torch, or leave --keep-output out");
}

// What the files of the model say of the weights that are packed.
void settle_packing(RunDraft& draft) {
  CompileOptions& compile = draft.config.compile;
  const TransformerConfig* model = draft.config.workload->transformer();
  if (model == nullptr || compile.base_weights == BaseWeights::as_is) return;
  const PublishedPacking& packing = model->packing;
  require(!packing.is_packed() || packing.format == compile.base_weights,
          "--base-weights {}: the files of {} have their weights in {}; {}", name(compile.base_weights), model->name,
          packing.widened.empty() ? name(packing.format) : packing.widened,
          packing.widened.empty() ? "leave the option out to take them as they are, or give as-is to widen them"
                                  : "give as-is to widen them");
  const bool trains = compile.mode != Mode::forward && !compile.lora && compile.frozen.empty();
  require(!packing.is_packed() || !trains,
          "the files of {} have their weights in {}, which does not train; add --lora r=16, or --base-weights as-is to "
          "train the widened weights",
          model->name, name(packing.format));
  // No files have weights in fp8: they are made of what the files have.
  if (compile.base_weights != BaseWeights::fp8)
    compile.published_weights = published_weights(*model, compile.base_weights);
}

// Completes the configuration of a draft that has its workload by the options of training and of ranks.
void settle_training(RunDraft& draft) {
  settle_optimizer(draft);
  settle_packing(draft);
  const CompileOptions& compile = draft.config.compile;
  const Precision precision = compile.precision;
  require(compile.master_weights || precision == Precision::bf16 || precision == Precision::fp8,
          "--master-weights off stores parameters in bf16; add --dtype bf16 or fp8 instead of {}", name(precision));
  const bool is_packed = compile.base_weights != BaseWeights::as_is;
  require(!is_packed || is_low(matmul_dtype(precision)),
          "--base-weights {} widens weights to 16 bits; add --dtype bf16, fp16 or fp8 instead of {}, or --base-weights "
          "as-is",
          name(compile.base_weights), name(precision));
  require(!is_packed || compile.lora || !compile.frozen.empty() || compile.mode == Mode::forward,
          "--base-weights {} is for weights that do not train; add --lora or --frozen", name(compile.base_weights));
  require(!is_packed || compile.parallel.shard != Sharding::parameters,
          "--base-weights {} and --shard parameters exclude each other; use --shard optimizer or gradients",
          name(compile.base_weights));
  require(!includes(compile.offload, Offload::optimizer) || compile.mode == Mode::step,
          "--offload {} is for the states of the optimizer, and --mode {} has none; use step", name(compile.offload),
          name(compile.mode));
  require(!includes(compile.offload, Offload::activations) || runs_backward(compile.mode),
          "--offload {} moves what forward saves for backward, and --mode {} has none; use forward_backward or step",
          name(compile.offload), name(compile.mode));
  require(compile.accumulate == 1 || runs_backward(compile.mode),
          "--accumulate adds gradients, and --mode {} has none; use forward_backward or step", name(compile.mode));
  require(compile.checkpoint_segment == 1 || has_segments(compile.checkpoint),
          "--segment groups the blocks of --checkpoint block and nested, not of {}", name(compile.checkpoint));
  const bool is_chosen = draft.config.choose_sharding;
  const bool shards = compile.parallel.shard != Sharding::none;
  require((!shards && !is_chosen) || compile.parallel.is_parallel(),
          "--shard divides what ranks keep, and there is one rank; add --parallel data=2");
  require(!shards || compile.parallel.shard == Sharding::parameters || compile.mode == Mode::step,
          "--shard divides the states of the optimizer, and --mode {} has none; use step", name(compile.mode));
  require(!draft.config.network || compile.parallel.is_parallel(),
          "--network connects ranks, and there is one rank; add --parallel data=2");
  require(compile.parallel.overlap || is_chosen || keeps_gradients(compile.parallel.shard),
          "overlap=off sums gradients that are whole until backward has ended, and --shard {} frees each during "
          "backward; use --shard none or optimizer, or overlap=on",
          name(compile.parallel.shard));
  require(!draft.config.choose_bucket || compile.checkpoint != Checkpoint::automatic,
          "--checkpoint auto and bucket=auto would plan for minutes together; give the size of a bucket, or a policy");
  require(
      !draft.config.choose_bucket || !draft.config.chooses_offload(),
      "--offload auto and bucket=auto would plan for minutes together; give the size of a bucket, or what to offload");
  const std::vector<std::string>& no_decay = compile.optimizer.no_decay;
  if (compile.frozen.empty() && no_decay.empty() && !compile.lora) return;
  const TransformerConfig* model = draft.config.workload->transformer();
  if (model != nullptr && draft.config.compile.lora) draft.config.compile.lora->published = published_layers(*model);
  const Graph graph = draft.config.workload->build();
  check_patterns(graph, "--frozen", {.frozen = compile.frozen});
  check_patterns(graph, "--lora", {.lora = compile.lora});
  check_patterns(graph, "--no-decay", {.optimizer = {.no_decay = no_decay}, .lora = compile.lora});
}

// What --fit-into needs beside the options that it decides.
void settle_fit_into(const RunDraft& draft, RunConfig& config) {
  if (!config.fit_into_bytes) return;
  require(runs_backward(config.compile.mode),
          "--fit-into decides what backward keeps, and --mode {} has none; use forward_backward or step",
          name(config.compile.mode));
  require(!config.choose_sharding && !config.choose_bucket,
          "--fit-into searches with one sharding; give --shard and the size of a bucket instead of auto");
  require(config.plan_as == PlanAs::ridgepoint, "--fit-into schedules this engine; leave --as out");
  config.device_options.memory_limit_bytes = config.fit_into_bytes;
  if (!has_setting(workload_kind(draft.workload), "batch")) return;
  config.workload_of_batch = [draft](std::int64_t batch) {
    RunDraft divided = draft;
    divided.batch = batch;
    return workload_of(divided);
  };
}

// A model of which a workload runs one layer's attention: other sizes of it do not count.
TransformerConfig layer_of(const RunDraft& draft) {
  TransformerConfig model = source_of(draft).config;
  if (draft.d_model || draft.heads) model.name = "custom";
  model.d_model = draft.d_model.value_or(model.d_model);
  model.heads = draft.heads.value_or(model.heads);
  return model;
}

// The first `layers` of the model, or more: those that project no keys are its last ones.
void take_layers(TransformerConfig& model, std::int64_t layers) {
  Architecture& a = model.architecture;
  const std::int64_t with_keys = model.layers - a.layers_without_keys;
  if (a.layers_without_keys > 0) a.layers_without_keys = std::max<std::int64_t>(layers - with_keys, 0);
  if (!a.sparsity.empty())
    a.sparsity.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(layers, 0, kMostLayers)));
  model.layers = layers;
}

// The tokens of a run that does not say how many: all that an image has, and no more than a model has positions for.
std::int64_t usual_context(std::int64_t tokens, const Architecture& a, bool is_of_config) {
  if (a.images.size > 0) return a.max_context;
  const bool has_most = a.max_context > 0 && (is_of_config || a.positions == Positions::learned);
  return has_most ? std::min(tokens, a.max_context) : tokens;
}

}  // namespace

std::vector<std::string_view> repeated_values(std::string_view given) {
  std::vector<std::string_view> values;
  for (std::string_view rest = given;; rest.remove_prefix(values.back().size() + 1)) {
    values.push_back(rest.substr(0, rest.find(kBetweenRepeated)));
    if (values.back().size() == rest.size()) return values;
  }
}

std::vector<std::string> notes_of(std::span<const RunDraft> drafts) {
  std::vector<std::string> notes;
  std::string_view last;
  for (const RunDraft& draft : drafts) {
    if (draft.model_name.empty() || draft.model_name == last) continue;
    last = draft.model_name;
    ModelConfig model = source_of(draft);
    const bool is_divided = std::ranges::any_of(drafts, divides_the_batch);
    if (is_divided && model.config.architecture.experts.auxiliary_loss > 0) model.notes.emplace_back(kBalancedApart);
    for (const std::string& sentence : model.notes) {
      std::string note = fmt::format("{}: {}", model.config.name, sentence);
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  return notes;
}

TransformerConfig model_of(const RunDraft& draft) {
  const bool has_sizes = draft.layers || draft.d_model || draft.d_ff || draft.heads;
  if (!draft.config_overrides.empty() && draft.model_name.empty())
    refuse("--config-override changes the config.json of a model; it needs --model");
  TransformerConfig model;
  if (!draft.model_name.empty() || !has_sizes) {
    model = source_of(draft).config;
  } else {
    require_size(draft.layers, "--layers");
    require_size(draft.d_model, "--d-model");
    require_size(draft.heads, "--heads");
    model.d_ff = usual_d_ff(*draft.d_model);
  }
  if (has_sizes || draft.vocab.value_or(model.vocab) != model.vocab) model.name = "custom";
  model.context = draft.model.context;
  model.attention = draft.model.attention;
  model.ignores_targets = draft.model.ignores_targets;
  if (draft.layers) take_layers(model, *draft.layers);
  model.d_model = draft.d_model.value_or(model.d_model);
  model.d_ff = draft.d_ff.value_or(model.d_ff);
  model.heads = draft.heads.value_or(model.heads);
  model.vocab = draft.vocab.value_or(model.vocab);
  return model;
}

std::shared_ptr<const Workload> workload_of(const RunDraft& draft) {
  const WorkloadKind& kind = workload_kind(draft.workload);
  WorkloadSettings settings{.batch = draft.batch,
                            .context = draft.model.context,
                            .attention = draft.model.attention,
                            .precision = draft.config.compile.precision,
                            .layers = draft.layers,
                            .d_model = draft.d_model,
                            .d_ff = draft.d_ff,
                            .heads = draft.heads,
                            .vocab = draft.vocab};
  if (!has_setting(kind, "model")) return kind.make(settings);
  const TransformerConfig model = has_setting(kind, "layers") ? model_of(draft) : layer_of(draft);
  settings.model = &model;
  return kind.make(settings);
}

bool has_setting(const WorkloadKind& kind, std::string_view setting) {
  return std::ranges::find(kind.settings, setting) != kind.settings.end();
}

void require_setting(std::string_view workload, std::string_view setting) {
  const WorkloadKind& kind = workload_kind(workload);
  if (has_setting(kind, setting)) return;
  const std::string has =
      kind.settings.empty() ? "has fixed sizes" : fmt::format("has --{} alone", fmt::join(kind.settings, ", --"));
  refuse("--{}: the workload '{}' {}; leave it out", setting, kind.name, has);
}

RunConfig finish(RunDraft draft) {
  draft.config.workload = workload_of(draft);
  const Workload& workload = *draft.config.workload;
  require(draft.config.compile.mode != Mode::step || workload.describe().model.parameters > 0 ||
              !parameters_of(workload).empty(),
          "--mode step updates parameters, and the workload '{}' has none; use forward or forward_backward",
          draft.workload);
  settle_training(draft);
  require_output_is_kept_by_torch(draft.config);
  RunConfig config = draft.config;
  settle_fit_into(draft, config);
  return config;
}

RunOptions::RunOptions(std::string_view settings, Rows rows) {
  for (const std::string_view setting : words_of(settings)) {
    axes_.push_back(axis_of(setting, rows));
    for (const Setting& other : record_settings())
      if (other.option.beside == setting) axes_.push_back(axis_of(other.option.name(), rows));
  }
  if (rows == Rows::attention_calls) use_defaults_of_presets();
}

void RunOptions::use_defaults_of_presets() {
  for (Axis& axis : axes_) axis.text.of_config.clear();
}

void RunOptions::add_to(CLI::App& app) {
  for (Axis& axis : axes_) {
    CLI::Option* option = app.add_option(axis.text.flags, axis.given, axis.text.full_help());
    option->type_name(axis.text.value)->group(axis.text.group);
    if (!axis.text.alone.empty()) option->expected(0, 1)->default_str(axis.text.alone);
    if (axis.takes_list) offer(*option, axis.text.names, Takes::list);
    if (axis.is_repeated) option->join(kBetweenRepeated);
    axis.option = option;
  }
}

void RunOptions::add_skip_to(CLI::App& app) {
  OptionGroup(app, "Work")
      .add("--skip", skip_, "N", "leave out the first N rows of the sweep, to continue one that was stopped [0]");
}

void RunOptions::add_run_anyway(CLI::App& app, bool& run_anyway) {
  OptionGroup(app, "Work").add_flag("--run-anyway", run_anyway, "run a row even if its predicted memory does not fit");
}

std::vector<RunDraft> RunOptions::drafts() const {
  check_fit_into();
  std::vector<RunDraft> drafts(1);
  if (!given("--device")) drafts.front().config.device = default_device_name();
  for (const Axis& axis : axes_) {
    const std::vector<Axis::Change> changes = changes_of(axis);
    if (changes.empty()) continue;
    if (drafts.size() * changes.size() > kMaxSweepValues) {
      refuse("the sweep has more than {} rows; give fewer values for {}", kMaxSweepValues, axis.text.flags);
    }
    std::vector<RunDraft> product;
    product.reserve(drafts.size() * changes.size());
    for (const RunDraft& draft : drafts) {
      for (const Axis::Change& change : changes) change(product.emplace_back(draft));
    }
    drafts = std::move(product);
  }
  settle_workloads(drafts);
  take_defaults_of_configs(drafts);
  for (RunDraft& draft : drafts) settle_card(draft, given("--device"));
  require(!given("--host-memory") || std::ranges::any_of(drafts, has_tensors_on_host),
          "--host-memory limits what --offload keeps on the host; add --offload optimizer, parameters or activations");
  require(!given("--offload-folder") || std::ranges::any_of(drafts, may_offload_states),
          "--offload-folder is for the states that --offload keeps on the host; add --offload optimizer");
  const auto rows = static_cast<std::int64_t>(drafts.size());
  if (skip_ < 0 || skip_ >= rows) {
    refuse("--skip: {} is out of range; the sweep has {} row{}", skip_, rows, rows == 1 ? "" : "s");
  }
  drafts.erase(drafts.begin(), drafts.begin() + skip_);
  if (tells_for_all_ranks()) {
    for (const std::string& note : notes_of(drafts)) print_error(note);
  }
  return drafts;
}

void RunOptions::check_fit_into() const {
  if (!given("--fit-into")) return;
  for (const char* flag : {"--checkpoint", "--segment", "--loss-chunk", "--accumulate"})
    require(!given(flag), "--fit-into decides {0}; leave {0} out", flag);
  require(!given("--offload-folder"),
          "--fit-into compares predicted times, and none is predicted with states in a file; leave out --fit-into or "
          "--offload-folder");
  require(!given("--memory-limit"), "--fit-into and --memory-limit are two limits; give one");
}

// Refuses given settings that a workload lacks, and takes the usual mode of each.
void RunOptions::settle_workloads(std::span<RunDraft> drafts) const {
  std::set<std::string> given_settings;  // of any workload
  for (const std::string_view name : workload_names()) {
    for (const std::string& setting : workload_kind(name).settings) {
      if (given("--" + setting)) given_settings.insert(setting);
    }
  }
  const bool has_mode = given("--mode");
  std::string_view last;
  for (RunDraft& draft : drafts) {
    const WorkloadKind& kind = workload_kind(draft.workload);
    if (!has_mode && kind.usual_mode != Mode::step) draft.config.compile.mode = kind.usual_mode;
    if (kind.name == last) continue;
    last = kind.name;
    for (const std::string& setting : given_settings) require_setting(kind.name, setting);
  }
}

// What people run of a model that has a config.json, where no option says it.
void RunOptions::take_defaults_of_configs(std::span<RunDraft> drafts) const {
  std::string_view last;
  TransformerConfig model;
  const auto context = std::ranges::find_if(axes_, [](const Axis& axis) { return axis.text.flags == "--context"; });
  for (RunDraft& draft : drafts) {
    if (draft.model_name.empty() || is_preset_name(draft.model_name)) continue;
    if (draft.model_name != last) model = source_of(draft).config;
    last = draft.model_name;
    if (has_setting(workload_kind(draft.workload), "layers")) take_packing(model, draft);
    for (const Axis& axis : axes_) {
      // PyTorch's eager mode, which --as torch predicts, compiles nothing.
      const bool has_no_such = draft.config.plan_as != PlanAs::ridgepoint && axis.text.flags == "--compile";
      if (axis.text.of_config.empty() || is_given(axis) || has_no_such) continue;
      for (const Axis::Change& change : axis.changes(axis.text.of_config)) change(draft);
    }
    if (context != axes_.end() && !is_given(*context))
      draft.model.context = usual_context(draft.model.context, model.architecture, !context->text.of_config.empty());
  }
}

// The weights of packed files are taken as they are, where no option says how.
void RunOptions::take_packing(const TransformerConfig& model, RunDraft& draft) const {
  const auto found = std::ranges::find_if(axes_, [](const Axis& axis) { return axis.text.flags == "--base-weights"; });
  if (!model.packing.is_packed() || found == axes_.end() || is_given(*found) || widens_packed_files_) return;
  require(model.packing.widened.empty(),
          "the files of {} have their weights in {}; taken as they are: nf4 and int8. --base-weights as-is widens them",
          model.name, model.packing.widened);
  draft.config.compile.base_weights = model.packing.format;
}

std::vector<RunConfig> RunOptions::expand() const {
  std::vector<RunConfig> configs;
  for (RunDraft& draft : drafts()) configs.push_back(finish(std::move(draft)));
  return configs;
}

Axis& RunOptions::axis(std::string_view flag) {
  return *std::ranges::find(axes_, flag, [](const Axis& axis) -> std::string_view { return axis.text.flags; });
}

void RunOptions::set_default(std::string_view flag, std::string text) {
  if (given(flag)) return;
  axis(flag).given = text;
  axis(flag).text.initial = std::move(text);
  axis(flag).text.of_config.clear();
}

void RunOptions::set_help(std::string_view flag, std::string help) {
  axis(flag).text.help = std::move(help);
  axis(flag).text.without.clear();
}

std::vector<const Setting*> RunOptions::settings() const {
  std::vector<const Setting*> all;
  for (const Axis& axis : axes_) all.push_back(axis.setting);
  return all;
}

std::vector<std::string> RunOptions::given() const {
  std::vector<std::string> flags;
  for (const Axis& axis : axes_) {
    if (is_given(axis)) flags.push_back(axis.text.flags);
  }
  return flags;
}

std::vector<std::string> RunOptions::arguments() const {
  std::vector<std::string> words;
  for (const Axis& axis : axes_) {
    if (is_given(axis)) words.insert(words.end(), {first_flag(axis), axis.given});
  }
  if (skip_ > 0) words.insert(words.end(), {"--skip", std::to_string(skip_)});
  return words;
}

bool RunOptions::given(std::string_view flag) const {
  return std::ranges::any_of(axes_, [&](const Axis& axis) { return axis.text.flags == flag && is_given(axis); });
}

RunDraft RunOptions::single_draft() const {
  std::vector<RunDraft> all = drafts();
  if (all.size() != 1) {
    refuse("the options give {} configurations and this command runs one; give one value for each option", all.size());
  }
  return std::move(all.front());
}

}  // namespace ridgepoint::cli
