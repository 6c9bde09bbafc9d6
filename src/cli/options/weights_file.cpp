#include "cli/options/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/terminal/output.h"
#include "interchange/safetensors.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

// A file of another model has hundreds of wrong tensors; the first ones suffice.
constexpr std::size_t kMostProblemsShown = 20;

std::vector<std::string> problems_of(const SafetensorsFile& file, const Workload& workload) {
  const std::vector<ParameterDeclaration> parameters = parameters_of(workload);
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
      problems.push_back(fmt::format("'{}' of '{}' is not a parameter of this model", name, path));
    }
  }
  return problems;
}

bool has_same_parameters(const Workload& a, const Workload& b) {
  const WorkloadDescription::Model x = a.describe().model;
  const WorkloadDescription::Model y = b.describe().model;
  return x.layers == y.layers && x.d_model == y.d_model && x.d_ff == y.d_ff && x.vocab == y.vocab;
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

void use_weights(const std::string& path, std::span<RunConfig> configs) {
  if (std::ranges::any_of(configs, [](const RunConfig& config) { return config.device == "null"; })) {
    throw Error("--weights: --device null reads no parameters; give one of the two", ErrorKind::usage);
  }
  const auto file = std::make_shared<const SafetensorsFile>(path);
  const Workload* checked = nullptr;
  for (RunConfig& config : configs) {
    if (checked == nullptr || !has_same_parameters(*checked, *config.workload))
      fail_with(problems_of(*file, *config.workload));
    checked = config.workload.get();
    config.weights = GivenWeights{path, [file](const ParameterDeclaration& parameter) {
                                    return convert(file->read(parameter.name), DType::fp32);
                                  }};
  }
}

}  // namespace ridgepoint::cli
