#include "cli/options/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/terminal/messages.h"
#include "core/text/throw_error.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/huggingface/weights/peft_adapter.h"
#include "interchange/safetensors.h"
#include "interchange/safetensors_names.h"
#include "models/transformer/transformer.h"

namespace ridgepoint::cli {
namespace {

// A file of another model has hundreds of wrong tensors; the first ones suffice.
constexpr std::size_t kMostProblemsShown = 20;

// The constants of the graph that the file has.
std::vector<ParameterDeclaration> constants_in(const SafetensorsFile& file, const Graph& graph) {
  std::vector<ParameterDeclaration> constants;
  for (const NodeId id : graph.inputs(Role::constant)) {
    const Node& node = graph.node(id);
    if (const std::string name = input_name(node); file.contains(name))
      constants.push_back({name, graph.type(node.outputs[0])});
  }
  return constants;
}

std::vector<std::string> problems_of(const SafetensorsFile& file, const Graph& graph,
                                     const std::vector<ParameterDeclaration>& constants) {
  std::vector<ParameterDeclaration> expected = parameters_of(graph);
  expected.insert(expected.end(), constants.begin(), constants.end());
  std::vector<std::string> problems;
  const std::string path = file.path().string();
  for (const auto& [name, type] : expected) {
    if (!file.contains(name)) {
      problems.push_back(fmt::format("'{}' is not in '{}'; the model needs it as {}", name, path, type.to_string()));
    } else if (const TensorType& found = file.type(name); !is_floating(found.dtype) || !(found.shape == type.shape)) {
      problems.push_back(
          fmt::format("'{}' is {} in '{}'; the model needs {}", name, found.to_string(), path, type.to_string()));
    }
  }
  for (const std::string& name : file.names()) {
    if (std::ranges::find(expected, name, &ParameterDeclaration::name) == expected.end()) {
      problems.push_back(fmt::format("{} of '{}' is not a parameter of this model", quote_name(name), path));
    }
  }
  return problems;
}

bool has_same_parameters(const Workload& a, const Workload& b) {
  const WorkloadDescription::Model x = a.describe().model;
  const WorkloadDescription::Model y = b.describe().model;
  const TransformerConfig *of_a = a.transformer(), *of_b = b.transformer();
  if (of_a == nullptr || of_b == nullptr) return of_a == of_b && x.name == y.name && x.parameters == y.parameters;
  return of_a->architecture == of_b->architecture && x.layers == y.layers && x.d_model == y.d_model &&
         x.d_ff == y.d_ff && x.vocab == y.vocab && x.heads == y.heads;
}

// Of an adapter and the model that it changes. Throws as checked_weights() does.
GivenWeights merged_weights(const std::string& path, const TransformerConfig* model) {
  if (model == nullptr) throw Error("--weights: only a Transformer reads the adapters of PEFT");
  const auto base = std::make_shared<const ModelWeights>(base_of_adapter(path), *model);
  const auto adapter = std::make_shared<const PeftAdapter>(path, *model);
  fail_with(base->problems());
  fail_with(adapter->problems());
  return {path,
          [base, adapter](const ParameterDeclaration& parameter) {
            HostTensor value = base->read(parameter.name);
            adapter->add_to(parameter.name, value);
            return value;
          },
          base->constants()};
}

// Throws Error after printing the problems.
GivenWeights checked_weights(const std::string& path, const Workload& workload) {
  const TransformerConfig* model = workload.transformer();
  if (is_peft_adapter(path)) return merged_weights(path, model);
  if (std::filesystem::is_directory(path) || path.ends_with(".json") || has_foreign_names(TensorFiles(path))) {
    if (model == nullptr) throw Error("--weights: only a Transformer reads the weights of a Hugging Face model");
    const auto weights = std::make_shared<const ModelWeights>(path, *model);
    fail_with(weights->problems());
    for (const std::string& note : weights->notes()) print_error(note);
    return {path, [weights](const ParameterDeclaration& parameter) { return weights->read(parameter.name); },
            weights->constants(),
            [weights](const std::string& parameter, const PackedMatrix& matrix) {
              return weights->read_packed(parameter, matrix);
            }};
  }
  const auto file = std::make_shared<const SafetensorsFile>(path);
  const Graph graph = workload.build();
  const std::vector<ParameterDeclaration> constants = constants_in(*file, graph);
  fail_with(problems_of(*file, graph, constants));
  return {path,
          [file](const ParameterDeclaration& parameter) { return convert(file->read(parameter.name), DType::fp32); },
          constants};
}

// Null where there is no config.json; a path with a comma would be a list of models.
std::optional<std::filesystem::path> config_beside(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path config = (is_folder ? path : path.parent_path()) / "config.json";
  if (!std::filesystem::exists(config, ignored) || config.string().find(',') != std::string::npos) return std::nullopt;
  return config;
}

}  // namespace

void take_model_beside(const std::string& path, RunOptions& options) {
  constexpr std::array<std::string_view, 6> kModelFlags = {"--model", "--layers", "--d-model",
                                                           "--d-ff",  "--heads",  "--vocab"};
  // Adapters are added to widened weights, which the bytes of the files are not.
  if (!path.empty() && is_peft_adapter(path)) options.widen_packed_files();
  const bool has_model = std::ranges::any_of(kModelFlags, [&](std::string_view flag) { return options.given(flag); });
  if (path.empty() || has_model) return;
  const std::optional<std::filesystem::path> config =
      config_beside(is_peft_adapter(path) ? base_of_adapter(path) : std::filesystem::path(path));
  if (!config) return;
  // A path without a folder must not be taken for the name of a model.
  const std::filesystem::path model = config->has_parent_path() ? *config : "." / *config;
  options.set_default("--model", model.string());
  print_error(fmt::format("--weights: the model is that of '{}'; --model gives another", model.string()));
}

void fail_with(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  const std::size_t shown = std::min(problems.size(), kMostProblemsShown);
  for (std::size_t i = 0; i < shown; ++i) print_error(problems[i]);
  const std::string rest = problems.size() > shown ? fmt::format(" ({} more not shown)", problems.size() - shown) : "";
  throw_error("{} tensor{} not as expected{}", problems.size(), problems.size() == 1 ? " is" : "s are", rest);
}

void use_weights(const std::string& path, std::span<RunConfig> configs) {
  if (std::ranges::any_of(configs, [](const RunConfig& config) { return config.device == "null"; })) {
    refuse("--weights: --device null reads no parameters; give one of the two");
  }
  const Workload* checked = nullptr;
  GivenWeights weights;
  for (RunConfig& config : configs) {
    if (checked == nullptr || !has_same_parameters(*checked, *config.workload))
      weights = checked_weights(path, *config.workload);
    checked = config.workload.get();
    config.weights = weights;
  }
}

}  // namespace ridgepoint::cli
