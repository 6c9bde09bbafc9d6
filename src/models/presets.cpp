#include <array>

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
  throw Error("unknown model '" + std::string(name) + "'" + hint(name, names), ErrorKind::usage);
}

namespace {

std::int64_t multiplied(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw Error(std::string(what) + " overflows 64 bits; use smaller sizes", ErrorKind::usage);
  return product;
}

std::int64_t added(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw Error(std::string(what) + " overflows 64 bits; use smaller sizes", ErrorKind::usage);
  return sum;
}

void require_positive(std::int64_t value, const char* option) {
  if (value <= 0)
    throw Error(std::string(option) + " is " + std::to_string(value) + "; it must be 1 or more", ErrorKind::usage);
}

}  // namespace

std::int64_t parameter_count(const TransformerConfig& c) {
  constexpr const char* kWhat = "the parameter count";
  const std::int64_t attention = multiplied(4, multiplied(c.d_model, c.d_model, kWhat), kWhat);
  const std::int64_t feed_forward = multiplied(3, multiplied(c.d_model, c.d_ff, kWhat), kWhat);
  const std::int64_t norms = multiplied(2, c.d_model, kWhat);
  const std::int64_t layer = added(added(attention, feed_forward, kWhat), norms, kWhat);
  const std::int64_t tables = multiplied(2, multiplied(c.vocab, c.d_model, kWhat), kWhat);
  return added(added(multiplied(c.layers, layer, kWhat), tables, kWhat), c.d_model, kWhat);
}

void validate(const TransformerConfig& c, std::int64_t batch) {
  const std::pair<std::int64_t, const char*> sizes[] = {
      {batch, "--batch"}, {c.context, "--context"}, {c.vocab, "--vocab"}, {c.d_model, "--d-model"},
      {c.d_ff, "--d-ff"}, {c.layers, "--layers"},   {c.heads, "--heads"}};
  for (const auto& [value, option] : sizes) require_positive(value, option);
  if (c.d_model % c.heads != 0) {
    throw Error("--heads " + std::to_string(c.heads) + " does not divide --d-model " + std::to_string(c.d_model) +
                    "; every head needs the same width",
                ErrorKind::usage);
  }
  if ((c.d_model / c.heads) % 2 != 0) {
    throw Error("--d-model " + std::to_string(c.d_model) + " over --heads " + std::to_string(c.heads) +
                    " gives an odd head width " + std::to_string(c.d_model / c.heads) +
                    "; rotary embedding needs an even one",
                ErrorKind::usage);
  }
  parameter_count(c);
  // The two largest activations, in bytes of the widest type.
  const std::int64_t tokens = multiplied(batch, c.context, "--batch x --context");
  multiplied(8, multiplied(tokens, std::max(c.vocab, c.d_ff), "the size of the logits"), "the size of the logits");
  multiplied(8,
             multiplied(multiplied(tokens, c.context, "the size of the attention scores"), c.heads,
                        "the size of the attention scores"),
             "the size of the attention scores");
}

std::string_view name(Mode mode) {
  constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "step"};
  return kNames[static_cast<std::size_t>(mode)];
}

Mode mode_from_name(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "step"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<Mode>(i);
  }
  throw Error("unknown mode '" + std::string(text) + "'" + hint(text, kNames), ErrorKind::usage);
}

}  // namespace ridgepoint
