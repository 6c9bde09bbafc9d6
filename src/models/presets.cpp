#include <algorithm>

#include "core/checked.h"
#include "core/nearest.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"

namespace ridgepoint {

const std::vector<TransformerConfig>& transformer_presets() {
  static const std::vector<TransformerConfig> presets = {
      {"tiny", 10000, 256, 128, 384, 2, 4},      {"22.7m", 10000, 256, 512, 1344, 4, 16},
      {"small", 10000, 256, 768, 3072, 12, 12},  {"medium", 10000, 256, 1024, 4096, 24, 16},
      {"large", 10000, 256, 1280, 5120, 36, 20}, {"xl", 10000, 256, 1600, 6400, 48, 25},
      {"2.35b", 10000, 256, 3200, 25600, 8, 4},  {"2.7b", 10000, 256, 2560, 10240, 32, 32},
  };
  return presets;
}

TransformerConfig transformer_preset(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TransformerConfig& preset : transformer_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  refuse_name(name, "unknown model '{}'", names);
}

std::int64_t parameter_count(const TransformerConfig& c) {
  constexpr const char* kWhat = "the parameter count";
  const auto product = [](std::initializer_list<std::int64_t> factors) { return checked_product(factors, kWhat); };
  const auto sum = [](std::initializer_list<std::int64_t> terms) { return checked_sum(terms, kWhat); };
  const std::int64_t layer =
      sum({product({4, c.d_model, c.d_model}), product({3, c.d_model, c.d_ff}), product({2, c.d_model})});
  return sum({product({c.layers, layer}), product({2, c.vocab, c.d_model}), c.d_model});
}

void validate(const TransformerConfig& c, std::int64_t batch) {
  const std::pair<std::int64_t, const char*> sizes[] = {
      {batch, "--batch"}, {c.context, "--context"}, {c.vocab, "--vocab"}, {c.d_model, "--d-model"},
      {c.d_ff, "--d-ff"}, {c.layers, "--layers"},   {c.heads, "--heads"}};
  for (const auto& [value, option] : sizes) {
    if (value >= 1) continue;
    throw Error(std::string(option) + " is " + std::to_string(value) + "; it must be at least 1", ErrorKind::usage);
  }
  if (c.d_model % c.heads != 0) {
    throw Error("--heads " + std::to_string(c.heads) + " does not divide --d-model " + std::to_string(c.d_model) +
                    "; every head needs the same width",
                ErrorKind::usage);
  }
  if ((c.d_model / c.heads) % 2 != 0) {
    throw Error("--d-model " + std::to_string(c.d_model) + " over --heads " + std::to_string(c.heads) +
                    " gives the odd head size " + std::to_string(c.d_model / c.heads) +
                    "; rotary embedding needs an even one",
                ErrorKind::usage);
  }
  parameter_count(c);
  // These are the two largest activations, in bytes of the widest dtype.
  checked_product({8, batch, c.context, std::max(c.vocab, c.d_ff)}, "the size of the logits");
  checked_product({8, batch, c.context, c.context, c.heads}, "the size of the attention scores");
}

}  // namespace ridgepoint
