#include "cli/options/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/terminal/output.h"
#include "interchange/safetensors.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

// A file of the wrong model has hundreds of wrong tensors; the first ones tell.
constexpr std::size_t kMostProblemsShown = 20;

std::vector<std::string> problems_of(const SafetensorsFile& file, const TransformerConfig& model) {
  const std::vector<ParameterDeclaration> parameters = transformer_parameters(model);
  std::vector<std::string> problems;
  const std::string path = file.path().string();
  for (const auto& [name, type] : parameters) {
    if (!file.contains(name)) {
      problems.push_back(fmt::format("'{}' is not in '{}'; the model needs it as {}", name, path, type.to_string()));
    } else if (const TensorType& found = file.type(name); !is_floating(found.dtype) || !(found.shape == type.shape)) {
      problems.push_back(
          fmt::format("'{}' is {} in '{}'; the model needs {}", name, found.to_string(), path, type.to_string()));
    }
  }
  for (const std::string& name : file.names()) {
    if (std::ranges::find(parameters, name, &ParameterDeclaration::name) == parameters.end()) {
      problems.push_back(fmt::format("'{}' of '{}' is no parameter of this model", name, path));
    }
  }
  return problems;
}

bool has_same_parameters(const TransformerConfig& a, const TransformerConfig& b) {
  return a.layers == b.layers && a.d_model == b.d_model && a.d_ff == b.d_ff && a.vocab == b.vocab;
}

}  // namespace

void fail_with(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  const std::size_t shown = std::min(problems.size(), kMostProblemsShown);
  for (std::size_t i = 0; i < shown; ++i) print_error(problems[i]);
  const std::string rest = problems.size() > shown ? fmt::format(" ({} more not shown)", problems.size() - shown) : "";
  throw Error(
      fmt::format("{} tensor{} not as expected{}", problems.size(), problems.size() == 1 ? " is" : "s are", rest));
}

void use_weights(const std::string& path, std::span<StepConfig> configs) {
  if (std::ranges::any_of(configs, [](const StepConfig& config) { return config.device == "null"; })) {
    throw Error("--weights: --device null reads no parameters; leave one of the two out", ErrorKind::usage);
  }
  const auto file = std::make_shared<const SafetensorsFile>(path);
  const TransformerConfig* checked = nullptr;
  for (StepConfig& config : configs) {
    if (checked == nullptr || !has_same_parameters(*checked, config.model)) fail_with(problems_of(*file, config.model));
    checked = &config.model;
    config.weights = GivenWeights{path, [file](const ParameterDeclaration& parameter) {
                                    return convert(file->read(parameter.name), DType::fp32);
                                  }};
  }
}

}  // namespace ridgepoint::cli
