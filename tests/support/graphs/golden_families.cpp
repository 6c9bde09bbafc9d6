#include "support/graphs/golden_families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "core/files/temporary_folder.h"
#include "core/random/element.h"
#include "interchange/huggingface/model_config.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/huggingface/weights/weight_rows.h"
#include "interchange/safetensors.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "run/session/steps/compare_tensors.h"
#include "support/program/build_paths.h"

namespace ridgepoint::testing {
namespace {

// The gradient of a tensor of the files, from those of the parameters that it holds.
HostTensor stored_gradient(const StoredWeight& weight, Program& program) {
  HostTensor stored(TensorType{DType::fp32, weight.shape});
  for (std::size_t part = 0; part < weight.parts.size(); ++part) {
    const std::string gradient = "grad." + weight.parts[part].parameter;
    if (program.graph().find_output(gradient))  // a frozen parameter has none, and the files have zeros
      WeightRows(weight, part).write(program.read_output(gradient), stored);
  }
  return stored;
}

double magnitude(const HostTensor& tensor) {
  double largest = 0;
  for (const float x : tensor.as<float>()) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return largest;
}

// The relative L2 error. Where the definition gives 0 but for its rounding, as for a bias of keys without rotary
// embedding, the error is what the engine has instead: the other gradients are about 1.
double error_of(const HostTensor& ours, const HostTensor& theirs) {
  constexpr double kRounding = 1e-12;
  return magnitude(theirs) < kRounding ? magnitude(ours) : compare_tensors(ours, theirs, {}).relative_l2;
}

// 16 sums of the elements, added or subtracted as the bits of a hash of their number say: what the files have of logits
// and gradients, so that they stay small (tools/models/make_family_golden.py).
HostTensor sketch_of(const HostTensor& tensor) {
  std::array<double, 16> sums{};
  const std::span<const float> values = tensor.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = mix(i);
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += ((bits >> k) & 1) != 0 ? -values[i] : values[i];
  }
  HostTensor sketch(TensorType{DType::fp32, {16}});
  std::ranges::transform(sums, sketch.as<float>().begin(), [](double sum) { return static_cast<float>(sum); });
  return sketch;
}

// The weight of a rule in the metadata of golden.safetensors: made_weight() of tools/models/families/cases.py.
HostTensor made_weight(const std::string& rule) {
  std::istringstream words(rule);
  std::uint64_t first = 0;
  double mean = 0, deviation = 0;
  words >> first >> mean >> deviation;
  const std::vector<Dim> dims(std::istream_iterator<std::int64_t>{words}, std::istream_iterator<std::int64_t>{});
  HostTensor weight(TensorType{DType::fp32, Shape(dims)});
  for (float& element : weight.as<float>()) {
    const double uniform = static_cast<double>(mix(first++) >> 11) * 0x1p-53;
    element = static_cast<float>(mean + deviation * (std::sqrt(12.0) * (uniform - 0.5)));
  }
  return weight;
}

// Writes the weights and tokens of the files into the program, and runs it.
void run(Program& program, const Transformer& model, const ModelWeights& weights, const SafetensorsFile& tokens) {
  model.write_data(program, 0);  // the rotary tables
  for (const ParameterDeclaration& one : weights.parameters()) program.write_input(one.name, weights.read(one.name));
  for (const ParameterDeclaration& one : weights.constants()) program.write_input(one.name, weights.read(one.name));
  for (const char* name : {"inputs", "targets"}) program.write_input(name, tokens.read(name));
  program.run();
}

}  // namespace

std::filesystem::path golden_families_folder() { return source_folder() / "tests/golden/families"; }

std::span<const std::string> golden_families() {
  static const std::vector<std::string> models = [] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(golden_families_folder()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }();
  return models;
}

std::filesystem::path golden_tensors(std::string_view model) {
  return golden_families_folder() / model / "golden.safetensors";
}

void write_golden_model(std::string_view model, const std::filesystem::path& folder) {
  std::filesystem::copy_file(golden_families_folder() / model / "config.json", folder / "config.json");
  const SafetensorsFile golden(golden_tensors(model));
  std::vector<TensorDeclaration> declarations;
  std::vector<HostTensor> tensors;
  const auto add = [&](const std::string& name, HostTensor tensor) {
    declarations.push_back({name, tensor.type});
    tensors.push_back(std::move(tensor));
  };
  for (const auto& [name, rule] : golden.header().metadata)
    if (name != "made_by") add(name, made_weight(rule));
  for (const std::string& name : golden.names())  // the experts of each token
    if (name.ends_with("tid2eid")) add(name, golden.read(name));
  write_safetensors(folder / "model.safetensors", declarations, [&](std::size_t i) { return tensors[i]; });
}

std::vector<GoldenFamilyCase> golden_family_cases(std::string_view device, std::span<const Compile> levels) {
  std::vector<GoldenFamilyCase> cases;
  for (const std::string_view model : golden_families()) {
    for (const Compile level : levels) cases.push_back({model, device, level});
  }
  return cases;
}

std::string name_of(const GoldenFamilyCase& one) {
  return std::string(one.model) + "_on_" + std::string(one.device) + (one.level == Compile::off ? "" : "_compiled");
}

std::vector<Disagreement> disagreements(const GoldenFamilyCase& one, std::shared_ptr<Device> device, double tolerance) {
  const TemporaryFolder folder;
  write_golden_model(one.model, folder.path());
  const SafetensorsFile golden(golden_tensors(one.model));
  TransformerConfig config = read_model_config(folder.path()).config;
  const Shape tokens = golden.type("inputs").shape;
  config.context = tokens.rank() == 2 ? tokens[1] : tokens[1] + 1;  // patches and the class
  const ModelWeights weights(folder / "model.safetensors", config);
  for (const std::string& problem : weights.problems()) throw Error(problem);

  const Transformer model(config, tokens[0]);
  Program program(build_transformer(config, tokens[0]), std::move(device),
                  {.compile = {.mode = Mode::forward_backward,
                               .level = one.level,
                               .keep = {.results = true, .gradients = true},
                               .verify = true}});
  run(program, model, weights, golden);

  std::vector<Disagreement> found;
  const auto compare = [&](const std::string& name, const HostTensor& ours, const HostTensor& theirs) {
    const double error = error_of(ours, theirs);
    if (!(error < tolerance)) found.push_back({name, error});
  };
  compare("logits", sketch_of(program.read_output("logits")), golden.read("logits"));
  compare("loss", program.read_output("loss"), golden.read("loss"));
  std::vector<StoredWeight> stored = stored_weights(config);
  std::erase_if(stored, [](const StoredWeight& weight) { return weight.is_constant; });
  const auto is_gradient = [](const std::string& name) { return name.starts_with("grad."); };
  if (std::ranges::count_if(golden.names(), is_gradient) != std::ssize(stored))
    throw Error("the gradients are not those of the model's tensors");
  for (const StoredWeight& weight : stored)
    compare(weight.name, sketch_of(stored_gradient(weight, program)), golden.read("grad." + weight.name));
  return found;
}

}  // namespace ridgepoint::testing
