// ridgepoint verify: runs training steps from given weights and tokens, or a call of attention on given tensors, and
// compares the results with a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/output.h"
#include "cli/options/rank_options.h"
#include "cli/options/run_options.h"
#include "cli/options/weights_file.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/run_rows.h"
#include "cli/terminal/width.h"
#include "core/text/throw_error.h"
#include "inspect/attention/deviations.h"
#include "inspect/precision/difference_table.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/safetensors.h"
#include "models/text_workload.h"
#include "models/transformer/attention.h"
#include "models/transformer/transformer.h"
#include "run/session/steps/attention_results.h"
#include "run/session/steps/training_steps.h"

namespace ridgepoint::cli {
namespace {

// Tokens, or the patches of images fp32 [batch, patches, values] and their classes int64 [batch].
HostTensor read_tokens(const SafetensorsFile& file, const std::string& name) {
  HostTensor tokens = file.read(name);
  const int rank = tokens.type.shape.rank();
  const bool is_of_images =
      name == "inputs" ? tokens.type.dtype == DType::fp32 && rank == 3 : tokens.type.dtype == DType::int64 && rank == 1;
  if (!is_of_images && (tokens.type.dtype != DType::int64 || rank != 2))
    throw_error("'{}' is {} in '{}'; tokens are int64 [batch, context]", name, tokens.type.to_string(),
                file.path().string());
  return tokens;
}

void write_tensors(const std::string& path, const std::map<std::string, HostTensor>& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors) declarations.push_back({name, tensor.type});
  write_safetensors(path, declarations, [&](std::size_t i) { return tensors.at(declarations[i].name); });
}

constexpr const char* kInterruption = "interrupted; nothing was compared";

// A call of attention as a file has it.
struct GivenCall {
  AttentionProblem problem;
  AttentionTensors tensors;  // q, k and v, and do if the file has it, of four axes
  Shape queries, keys;       // of q and k in the file
};

HostTensor with_shape(HostTensor tensor, const Shape& shape) {
  tensor.type.shape = shape;
  return tensor;
}

// Without an axis for the heads, or for the batch, there is one.
Shape with_four_axes(const Shape& shape) {
  const int rank = shape.rank();
  return Shape{rank > 2 ? shape[0] : 1, rank > 3 ? shape[1] : 1, shape[-2], shape[-1]};
}

HostTensor read_numbers(const SafetensorsFile& file, const std::string& name) {
  HostTensor tensor = file.read(name);
  const int rank = tensor.type.shape.rank();
  if (!is_floating(tensor.type.dtype) || rank < 2 || rank > 4 || tensor.type.elements() == 0)
    throw_error(
        "'{}' is {} in '{}'; it must be floating [sequence, width], [batch, sequence, width] or "
        "[batch, heads, sequence, width]",
        name, tensor.type.to_string(), file.path().string());
  const HostTensor wide = convert(tensor, DType::fp64);
  const auto numbers = wide.as<double>();
  const auto none = std::ranges::find_if(numbers, [](double x) { return !std::isfinite(x); });
  if (none != numbers.end())
    throw_error(
        "'{}' has a NaN or an infinity at {} in '{}', so there is nothing to compare results with; "
        "write finite numbers",
        name, element_name(tensor.type.shape, none - numbers.begin()), file.path().string());
  return tensor;
}

GivenCall read_call(const SafetensorsFile& file, const RunDraft& draft) {
  GivenCall call;
  for (const std::string name : {"q", "k", "v", "do"}) {
    if (name == "do" && !file.contains(name)) continue;
    HostTensor tensor = read_numbers(file, name);
    if (name == "q") call.queries = tensor.type.shape;
    if (name == "k") call.keys = tensor.type.shape;
    const Shape& shape = tensor.type.shape;
    const Shape &q = call.queries, &k = call.keys;
    const bool fits = name == "q" || (name == "do" && shape == q) || (name == "v" && shape == k) ||
                      (name == "k" && k.rank() == q.rank() && k[-1] == q[-1] && (k.rank() < 3 || k[0] == q[0]) &&
                       (k.rank() < 4 || q[1] % k[1] == 0));
    if (!fits)
      throw_error(
          "'{}' is {} in '{}', which does not fit '{}' of {}: k and v have the batch and the width "
          "of q, v the shape of k, do that of q, and the heads of k divide those of q",
          name, shape.to_string(), file.path().string(), name == "v" ? "k" : "q", (name == "v" ? k : q).to_string());
    call.tensors[name] = with_shape(std::move(tensor), with_four_axes(shape));
  }
  const Shape q = with_four_axes(call.queries), k = with_four_axes(call.keys);
  call.problem = {.batch = q[0],
                  .heads = q[1],
                  .d_model = q[1] * q[3],
                  .queries = q[2],
                  .keys = k[2],
                  .kv_heads = k[1],
                  .causal = draft.causal,
                  .window = draft.window,
                  .soft_cap = draft.soft_cap,
                  .variant = draft.model.attention,
                  .precision = draft.config.compile.precision};
  if (draft.causal && q[2] != k[2]) {
    refuse("--causal true needs as many keys as queries, and '{}' has {} and {}; leave it out", file.path().string(),
           k[2], q[2]);
  }
  validate(call.problem);
  return call;
}

// The shape that a result of four axes has beside the inputs of the file; lse has no width.
Shape shape_in_file(const GivenCall& call, const std::string& name) {
  if (name == "dk" || name == "dv" || name == "k" || name == "v") return call.keys;
  if (name != "lse") return call.queries;
  return Shape(call.queries.dims().first(static_cast<std::size_t>(call.queries.rank() - 1)));
}

// Replaces the remarks on tensors whose fault a deviation names.
void add_deviations(const GivenCall& call, const SafetensorsFile& reference, const Tolerance& tolerance,
                    tables::Comparison& comparison) {
  AttentionTensors found;
  for (const tables::NamedDifference& each : comparison.differences) {
    if (each.difference.tolerance_ratio > 1) found[each.name] = reference.read(each.name);
  }
  if (const std::int64_t products = products_of_head(call.problem); products > kMostProductsOfHead && !found.empty()) {
    comparison.causes.push_back(
        fmt::format("No cause was looked for: the scores of a head take {} products, and above {} that takes minutes; "
                    "fewer queries and keys of the same program may show it",
                    products, kMostProductsOfHead));
    return;
  }
  for (const Deviation& each : deviations_of(call.problem, call.tensors, found, tolerance, stop_if_interrupted)) {
    for (const std::string& name : each.names) comparison.remarks.erase(name);
    const auto last = each.names.end() - 1;
    const std::string names =
        fmt::format("{}{}{}", fmt::join(each.names.begin(), last, ", "), each.names.size() == 1 ? "" : " and ", *last);
    comparison.causes.push_back(fmt::format("{} agree{} with {}{}", names, each.names.size() == 1 ? "s" : "", each.text,
                                            each.is_of_all ? "" : " (compared in one head alone)"));
  }
}

class Verify : public Command {
 public:
  // References are in fp32, whatever the model.
  Verify() { run_options_.use_defaults_of_presets(); }

  std::string_view name() const override { return "verify"; }
  std::string_view summary() const override {
    return "compare training steps or attention with a file of results, or write one";
  }
  std::string_view examples() const override {
    return "ridgepoint verify --weights w.safetensors --tokens t.safetensors --against torch.safetensors\n"
           "ridgepoint verify --save-weights w.safetensors --save-tokens t.safetensors --dump r.safetensors\n"
           "ridgepoint verify --dtype bf16 --against r.safetensors --rtol 1e-2 --atol 1e-2\n"
           "ridgepoint verify --tokens t.safetensors --against r.safetensors --checkpoint block\n"
           "ridgepoint verify --tokens t.safetensors --against r.safetensors --parallel data=2 --ranks 2\n"
           "ridgepoint verify --inputs qkv.safetensors --against o.safetensors --causal true --device reference";
  }
  std::string_view notes() const override {
    return "All files are safetensors. Weights are the model's parameters by name; tokens are int64 `inputs` and "
           "`targets` [batch, context]. Results are fp32: `logits`, `loss` and `grad.NAME` of the first step, `loss.K` "
           "of step K, `param.NAME` after the last step. A tensor agrees if each element has |ours - theirs| <= atol + "
           "rtol * |theirs| and, unless rtol is 0, the relative L2 error is at most rtol, or the differences are 0.001 "
           "atol on average: gradients that are mathematically 0 are rounding. For a parameter, the update "
           "is compared; its relative L2 error may be 100 rtol, because AdamW turns the rounding error of a gradient "
           "near 0 into an update of any size up to the learning rate. Logits and gradients are those of a run that "
           "keeps them; losses and parameters are those of the run that bench measures, with --loss-chunk and "
           "--shard.\n"
           "With --inputs, verify compares one call of attention instead of training steps. Inputs are `q`, `k`, `v` "
           "and, for backward, `do`, the gradient of o: [batch, heads, sequence, width], or without heads, or without "
           "both. Results are `o`, `lse` (the log-sum-exp of each row), `dq`, `dk` and `dv`. One file may have both "
           "inputs and results. --device reference computes the results in fp64. docs/commands/verify_attention.md has "
           "an example.";
  }

  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    rank_options_.add_to(app);
    const auto file = [&](const char* flag, std::string& path, const char* help) {
      app.add_option(flag, path, help)->type_name("FILE")->group("Files");
    };
    add_option_of(app, "weights", weights_, "Files");
    file("--tokens", tokens_, "read the inputs and targets [random, from --seed]");
    file("--inputs", inputs_, "compare a call of attention, and read its q, k, v and the gradient of o from this file");
    file("--dump", dump_, "write the results; with --inputs, the inputs too");
    file("--against", against_, "compare the results with this file; exit code 1 if a tensor is beyond tolerance");
    file("--save-weights", save_weights_,
         "write the initial parameters: a file with this program's names, or, if the name ends in /, a new folder with "
         "a config.json and weights as transformers loads them");
    file("--save-tokens", save_tokens_, "write the tokens");
    const OptionGroup group(app, "Verify");
    steps_option_ = group.add("--optimizer-steps", optimizer_steps_, "N",
                              "number of optimizer steps; 0 runs forward and backward only [1]");
    add_flag_of(app, "detect-anomaly", detect_anomaly_, "Verify");
    rtol_option_ = group.add("--rtol", tolerance_.relative, "X",
                             fmt::format("relative tolerance [{:g}; with --inputs and results of 16 bits {:g}]",
                                         tolerance_.relative, kOfLowResults));
    atol_option_ = group.add("--atol", tolerance_.absolute, "X",
                             fmt::format("absolute tolerance [{:g}; with --inputs and results of 16 bits {:g}]",
                                         tolerance_.absolute, kOfLowResults));
  }

  int run() override {
    if (!inputs_.empty()) return run_call();
    take_model_beside(weights_, run_options_);
    RunDraft draft = run_options_.single_draft();
    check_options(draft.config);
    for (const char* flag : {"--causal", "--window", "--soft-cap"}) {
      require(!run_options_.given(flag), "{} is of one call of attention; add --inputs FILE, which has its q, k and v",
              flag);
    }
    require(draft.workload != "attention",
            "--workload attention: verify reads the call from a file; add --inputs FILE, which has its q, k and v");
    const TrainingTokens tokens = tokens_from_file(draft);
    RunConfig config = finish(std::move(draft));
    if (config.workload->transformer() == nullptr) require_learns_text(*config.workload, "verify");
    rank_options_.place(std::span(&config, 1));
    config.detect_anomaly = detect_anomaly_;
    const std::optional<SafetensorsFile> reference = open(against_);
    if (!weights_.empty()) use_weights(weights_, std::span(&config, 1));
    if (!save_weights_.empty() && is_first_rank()) save_weights(config);
    if (only_saves_weights()) return kExitOk;
    const TrainingResult result = train(config, tokens);
    if (!is_first_rank()) return kExitOk;  // it has the same results
    report_losses(result);
    if (!save_tokens_.empty()) write_tensors(save_tokens_, {{"inputs", result.inputs}, {"targets", result.targets}});
    if (!dump_.empty()) write_tensors(dump_, result.tensors);
    const int exit_code = reference ? compare(config, result, *reference) : kExitOk;
    require_numbers(result);
    return exit_code;
  }

 private:
  void check_options(const RunConfig& config) const {
    require(config.device != "null", "--device null computes nothing to verify; use cpu, cuda or reference");
    require(optimizer_steps_ >= 0, "--optimizer-steps: {} is too small; the least is 0", optimizer_steps_);
    for (const CLI::Option* option : {rtol_option_, atol_option_}) {
      require(!against_.empty() || option->count() == 0, "--{} needs --against", option->get_lnames().front());
    }
    require(weights_.empty() || tokens_.empty() || !run_options_.given("--seed"),
            "--seed has no effect: weights and tokens come from files; leave it out");
    require(tolerance_.relative >= 0 && tolerance_.absolute >= 0, "--rtol and --atol must be 0 or more");
    for (const std::string& path : {dump_, save_tokens_}) {
      if (!path.empty()) check_writable(path);
    }
    if (!save_weights_.empty() && !saves_folder()) check_writable(save_weights_);
  }

  // One call of attention instead of training steps.
  int run_call() {
    check_call_options();
    run_options_.set_default("--workload", "attention");
    const RunDraft draft = run_options_.single_draft();
    require(draft.workload == "attention", "--workload {}: --inputs has a call of attention; leave one of them out",
            draft.workload);
    check_options(draft.config);
    const SafetensorsFile file(inputs_);
    GivenCall call = read_call(file, draft);
    const std::optional<SafetensorsFile> reference = open(against_);
    if (reference) check_gradients(call, *reference);
    AttentionTensors results = computed(draft.config, call);
    for (auto& [name, tensor] : results) tensor = with_shape(std::move(tensor), shape_in_file(call, name));
    if (!dump_.empty()) {
      AttentionTensors all = results;
      for (const auto& [name, tensor] : call.tensors) all[name] = with_shape(tensor, shape_in_file(call, name));
      write_tensors(dump_, all);
    }
    return reference ? compare_call(call, results, *reference) : kExitOk;
  }

  // Refuses what a call of attention would ignore.
  void check_call_options() const {
    constexpr std::string_view kOfCalls[] = {"--device", "--threads", "--memory-limit", "--workload",
                                             "--dtype",  "--compile", "--allocator",    "--attention",
                                             "--causal", "--window",  "--soft-cap"};
    std::vector<std::string> others = run_options_.given();
    std::erase_if(others,
                  [&](const std::string& flag) { return std::ranges::find(kOfCalls, flag) != std::end(kOfCalls); });
    for (const auto& [flag, path] : {std::pair("--weights", weights_),
                                     {"--tokens", tokens_},
                                     {"--save-weights", save_weights_},
                                     {"--save-tokens", save_tokens_}}) {
      if (!path.empty()) others.emplace_back(flag);
    }
    if (steps_option_->count() > 0) others.emplace_back("--optimizer-steps");
    if (detect_anomaly_) others.emplace_back("--detect-anomaly");
    if (rank_options_.is_given()) others.emplace_back("--ranks");
    require(others.empty(),
            "{} has no effect on the call of attention of --inputs, whose sizes are those of the file; leave it out",
            others.empty() ? "" : others.front());
    require(!against_.empty() || !dump_.empty(),
            "--inputs: add --against FILE to compare results with, or --dump FILE to write them");
  }

  static void check_gradients(const GivenCall& call, const SafetensorsFile& reference) {
    for (const char* name : {"dq", "dk", "dv"}) {
      if (call.tensors.contains("do") || !reference.contains(name)) continue;
      throw_error(
          "'{}' has '{}', and the inputs have no 'do', the gradient of o that it follows from; "
          "write 'do' beside q, k and v",
          reference.path().string(), name);
    }
  }

  static AttentionTensors computed(const RunConfig& config, const GivenCall& call) {
    std::optional<AttentionTensors> results = run_row({"verify attention"}, [&](Progress& progress) {
      return run_attention(config, call.problem, call.tensors, shown_on(progress));
    });
    if (!results) throw Interrupted(kInterruption);
    return std::move(*results);
  }

  int compare_call(const GivenCall& call, const AttentionTensors& results, const SafetensorsFile& reference) {
    const bool has_low = std::ranges::any_of(results, [&](const auto& each) {
      return reference.contains(each.first) && is_low(reference.type(each.first).dtype);
    });
    if (has_low && rtol_option_->count() == 0) tolerance_.relative = kOfLowResults;
    if (has_low && atol_option_->count() == 0) tolerance_.absolute = kOfLowResults;
    const AttentionProblem& problem = call.problem;
    const tables::NamedSizes sizes = {{"the head size", problem.head_size()},
                                      {"the number of heads", problem.heads},
                                      {"the batch", problem.batch},
                                      {"the number of keys", problem.keys}};
    tables::Comparison comparison =
        tables::compare_with_file(results, reference, tolerance_, {}, sizes, {"q", "k", "v", "do"});
    add_deviations(call, reference, tolerance_, comparison);
    return report(comparison);
  }

  static std::optional<SafetensorsFile> open(const std::string& path) {
    if (path.empty()) return std::nullopt;
    return std::optional<SafetensorsFile>(std::in_place, path);
  }

  // Sets batch and context to those of the file. Throws Error (usage) if an option gives another size.
  TrainingTokens tokens_from_file(RunDraft& draft) const {
    TrainingTokens data;
    if (tokens_.empty()) return data;
    const SafetensorsFile file(tokens_);
    data.inputs = read_tokens(file, "inputs");
    data.targets = read_tokens(file, "targets");
    const Shape& shape = data.inputs->type.shape;
    const bool has_images = shape.rank() == 3;
    const Shape& found = data.targets->type.shape;
    if (!(has_images ? found.rank() == 1 && found[0] == shape[0] : found == shape))
      throw_error("'inputs' is {} and 'targets' {} in '{}'; they must agree", data.inputs->type.to_string(),
                  data.targets->type.to_string(), tokens_);
    const std::int64_t ranks = draft.config.compile.parallel.data;
    require(shape[0] % ranks == 0, "the {} sequences of '{}' cannot be divided among {} ranks", shape[0], tokens_,
            ranks);
    check_agrees("--batch", draft.batch, shape[0] / ranks);
    const std::int64_t context = shape[1] + (has_images ? 1 : 0);  // and the token of the class
    check_agrees("--context", draft.model.context, context);
    draft.batch = shape[0] / ranks;
    draft.model.context = context;
    return data;
  }

  void check_agrees(std::string_view flag, std::int64_t asked, std::int64_t found) const {
    require(!run_options_.given(flag) || asked == found, "{} is {}, and '{}' has {}; leave the option out", flag, asked,
            tokens_, found);
  }

  // Whether --save-weights names a folder for transformers, rather than one file with this program's names.
  bool saves_folder() const { return save_weights_.ends_with('/') || std::filesystem::is_directory(save_weights_); }

  bool only_saves_weights() const {
    return !save_weights_.empty() && save_tokens_.empty() && dump_.empty() && against_.empty();
  }

  void save_weights(const RunConfig& config) const {
    const RowOutline row{fmt::format("weights of {}", config.workload->describe().model.name)};
    run_rows(std::span(&row, 1), [&](std::size_t, Progress& progress) {
      const std::vector<ParameterDeclaration> parameters = parameters_of(*config.workload);
      std::size_t written = 0;
      const auto value_of = [&](const ParameterDeclaration& parameter) {
        progress.update("writing", static_cast<double>(written++) / static_cast<double>(parameters.size()));
        return initial_value(config, parameter, stop_if_interrupted);
      };
      write_weights(config, parameters, value_of);
      return true;
    });
    stop_if_interrupted();
  }

  template <typename ValueOf>
  void write_weights(const RunConfig& config, const std::vector<ParameterDeclaration>& parameters,
                     const ValueOf& value_of) const {
    if (saves_folder()) {
      const TransformerConfig* model = config.workload->transformer();
      require(model != nullptr,
              "--save-weights: transformers loads Transformers alone; give the name of a file instead of a folder");
      write_model(save_weights_, *model, value_of);
      return;
    }
    std::vector<ParameterDeclaration> all = parameters;
    if (config.weights) all.insert(all.end(), config.weights->constants.begin(), config.weights->constants.end());
    std::vector<TensorDeclaration> declarations;
    for (const auto& [name, type] : all) declarations.push_back({name, type});
    write_safetensors(save_weights_, declarations, [&](std::size_t i) { return value_of(all[i]); });
  }

  TrainingResult train(const RunConfig& config, const TrainingTokens& tokens) const {
    const RowOutline row{fmt::format("verify {}", config.workload->describe().model.name)};
    std::optional<TrainingResult> result = run_row(row, [&](Progress& progress) {
      return run_training_steps(config, optimizer_steps_, tokens, shown_on(progress));
    });
    if (!result) throw Interrupted(kInterruption);
    return std::move(*result);
  }

  void report_losses(const TrainingResult& result) const {
    const auto print_loss = [&](const std::string& name, const std::string& label) {
      const float loss = result.tensors.at(name).as<float>()[0];
      print_output(std::isnan(loss) ? label + " NaN\n" : fmt::format("{} {:.7g}\n", label, loss));
    };
    if (optimizer_steps_ == 0) print_loss("loss", "loss");
    for (std::int64_t step = 1; step <= optimizer_steps_; ++step) {
      print_loss(fmt::format("loss.{}", step), fmt::format("step {} loss", step));
    }
  }

  // Throws Error if a loss, or with --detect-anomaly any result, is NaN or infinite.
  void require_numbers(const TrainingResult& result) const {
    if (!result.anomaly.empty()) throw Error("anomaly in " + result.anomaly);
    for (const auto& [name, tensor] : result.tensors) {
      if (!name.starts_with("loss") || std::isfinite(tensor.as<float>()[0])) continue;
      throw_error("'{}' is {}; --detect-anomaly names the first such node", name,
                  std::isnan(tensor.as<float>()[0]) ? "NaN" : "infinite");
    }
    if (detect_anomaly_) print_output("\nNo NaN and no infinity was found.\n");
  }

  int compare(const RunConfig& config, const TrainingResult& result, const SafetensorsFile& reference) const {
    const auto initial = [&](const std::string& parameter) {
      return initial_value(config, {parameter, result.tensors.at("param." + parameter).type}, stop_if_interrupted);
    };
    const WorkloadDescription description = config.workload->describe();
    const tables::NamedSizes sizes = {{"the batch", description.batch},
                                      {"the context", description.context},
                                      {"the tokens of a batch", description.batch * description.context},
                                      {"the width of a head", description.model.head_size},
                                      {"the width of the model", description.model.d_model}};
    return report(tables::compare_with_file(result.tensors, reference, tolerance_, initial, sizes));
  }

  static int report(const tables::Comparison& comparison) {
    print_output("\n" + render(Format::table, comparison_page(comparison), output_width()));
    for (const std::string& note : comparison.notes) print_error(note);
    fail_with(comparison.problems);
    return comparison.within_tolerance() ? kExitOk : kExitFailure;
  }

  // Both tolerances for results in bf16 and fp16, whose digits are 2^-8 and 2^-11 apart.
  static constexpr double kOfLowResults = 1e-2;
  static constexpr std::string_view kSettings =
      "device threads memory-limit workload model config-override layers d-model d-ff heads vocab context batch dtype "
      "compile allocator attention causal window soft-cap checkpoint segment loss-chunk seed optimizer momentum "
      "weight-decay no-decay clip-norm z-loss master-weights parallel shard network";
  RunOptions run_options_{kSettings};
  RankOptions rank_options_;
  std::string weights_, tokens_, inputs_, dump_, against_, save_weights_, save_tokens_;
  std::int64_t optimizer_steps_ = 1;
  bool detect_anomaly_ = false;
  Tolerance tolerance_;
  CLI::Option *rtol_option_ = nullptr, *atol_option_ = nullptr, *steps_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_verify() { return std::make_unique<Verify>(); }

}  // namespace ridgepoint::cli
