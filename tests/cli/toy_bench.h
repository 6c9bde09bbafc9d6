// Options of bench, of a model small enough for any machine and sanitizer, and weights for it.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/files/temporary_folder.h"
#include "interchange/safetensors.h"
#include "models/transformer/transformer.h"
#include "support/program/run_program.h"

namespace ridgepoint {

inline std::vector<std::string> toy_bench(const std::vector<std::string>& more) {
  return with_options(
      {"bench", "--device",  "cpu", "--layers", "1", "--d-model", "16", "--d-ff",  "24", "--heads", "2", "--vocab",
       "50",    "--context", "8",   "--batch",  "2", "--warmup",  "1",  "--steps", "3"},
      more);
}

// Weights in which one number is no number.
inline std::string weights_with_nan(const TemporaryFolder& folder) {
  std::string path = folder / "nan.safetensors";
  const Transformer model({"custom", 50, 8, 16, 24, 1, 2}, 1);
  const std::vector<ParameterDeclaration> parameters = parameters_of(model);
  std::vector<TensorDeclaration> declarations;
  for (const ParameterDeclaration& parameter : parameters) declarations.push_back({parameter.name, parameter.type});
  write_safetensors(path, declarations, [&](std::size_t i) {
    HostTensor tensor = model.initial_value(parameters[i], 0);
    if (parameters[i].name == "layers.0.ln1.weight") tensor.as<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    return tensor;
  });
  return path;
}

}  // namespace ridgepoint
