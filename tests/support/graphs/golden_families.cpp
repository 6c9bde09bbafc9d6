#include "support/graphs/golden_families.h"

#include <utility>

#include "interchange/huggingface/model_config.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/huggingface/weights/weight_rows.h"
#include "interchange/safetensors.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"
#include "run/session/steps/compare_tensors.h"
#include "support/program/build_paths.h"

namespace ridgepoint::testing {
namespace {

constexpr std::string_view kModels[] = {"gemma2",        "gemma3",   "gpt2",         "gpt2_erf", "llama2",
                                        "llama2_linear", "llama3",   "mistral",      "mixtral",  "mixtral_auxiliary",
                                        "olmo2",         "phi3",     "phi3_partial", "qwen2",    "qwen2_moe",
                                        "qwen3",         "qwen3_moe"};

// The gradient of a tensor of the files, from those of the parameters that it holds.
HostTensor stored_gradient(const TransformerConfig& config, const StoredWeight& weight, Program& program) {
  HostTensor stored(TensorType{DType::fp32, weight.shape});
  for (std::size_t part = 0; part < weight.parts.size(); ++part)
    WeightRows(config, weight, part).write(program.read_output("grad." + weight.parts[part].parameter), stored);
  return stored;
}

// Writes the weights and tokens of the files into the program, and runs it.
void run(Program& program, const Transformer& model, const ModelWeights& weights, const SafetensorsFile& tokens) {
  model.write_data(program, 0);  // the rotary tables
  for (const ParameterDeclaration& one : weights.parameters()) program.write_input(one.name, weights.read(one.name));
  for (const char* name : {"inputs", "targets"}) program.write_input(name, tokens.read(name));
  program.run();
}

}  // namespace

std::filesystem::path golden_families_folder() { return source_folder() / "tests/golden/families"; }

std::span<const std::string_view> golden_families() { return kModels; }

std::vector<GoldenFamilyCase> golden_family_cases(std::string_view device, std::span<const Compile> levels) {
  std::vector<GoldenFamilyCase> cases;
  for (const std::string_view model : kModels) {
    for (const Compile level : levels) cases.push_back({model, device, level});
  }
  return cases;
}

std::string name_of(const GoldenFamilyCase& one) {
  return std::string(one.model) + "_on_" + std::string(one.device) + (one.level == Compile::off ? "" : "_compiled");
}

std::vector<Disagreement> disagreements(const GoldenFamilyCase& one, std::shared_ptr<Device> device, double tolerance) {
  const std::filesystem::path folder = golden_families_folder() / one.model;
  const SafetensorsFile expected(folder / "expected.safetensors");
  const SafetensorsFile gradients(folder / "gradients.safetensors");
  TransformerConfig config = read_model_config(folder).config;
  const Shape tokens = expected.type("inputs").shape;
  config.context = tokens[1];
  const ModelWeights weights(folder / "model.safetensors", config);
  for (const std::string& problem : weights.problems()) throw Error(problem);

  const Transformer model(config, tokens[0]);
  Program program(build_transformer(config, tokens[0]), std::move(device),
                  {.compile = {.mode = Mode::forward_backward,
                               .level = one.level,
                               .keep = {.results = true, .gradients = true},
                               .verify = true}});
  run(program, model, weights, expected);

  std::vector<Disagreement> found;
  const auto compare = [&](const std::string& name, const HostTensor& ours, const HostTensor& theirs) {
    const double error = compare_tensors(ours, theirs, {}).relative_l2;
    if (!(error < tolerance)) found.push_back({name, error});
  };
  for (const char* name : {"logits", "loss"}) compare(name, program.read_output(name), expected.read(name));
  const std::vector<StoredWeight> stored = stored_weights(config);
  if (stored.size() != gradients.names().size()) throw Error("the gradients are not those of the model's tensors");
  for (const StoredWeight& weight : stored)
    compare(weight.name, stored_gradient(config, weight, program), gradients.read(weight.name));
  return found;
}

}  // namespace ridgepoint::testing
