#include <algorithm>

#include "core/checked.h"
#include "core/text/nearest.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// Of one layer: the linear layers, or the router, the experts and the shared expert with its gate.
std::int64_t feed_forward_parameters(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  const auto layer = [&](std::int64_t width) {
    constexpr const char* kWhat = "the parameter count";
    const std::int64_t weights = checked_product({a.gated ? 3 : 2, c.d_model, width}, kWhat);
    if (!a.feed_forward_bias) return weights;
    return checked_sum({weights, checked_product({a.gated ? 2 : 1, width}, kWhat), c.d_model}, kWhat);
  };
  if (a.experts.count == 0) return layer(c.d_ff);
  constexpr const char* kWhat = "the parameters of the experts";
  const std::int64_t shared = a.experts.shared_width;
  return checked_sum(
      {checked_product({a.experts.count, c.d_model}, kWhat), checked_product({a.experts.count, layer(c.d_ff)}, kWhat),
       shared > 0 ? checked_sum({layer(shared), c.d_model}, kWhat) : 0},
      kWhat);
}

}  // namespace

const std::vector<TransformerConfig>& transformer_presets() {
  static const std::vector<TransformerConfig> presets = {
      {"tiny", 10000, 256, 128, 384, 2, 4},         {"22.7m", 10000, 256, 512, 1344, 4, 16},
      {"small", 10000, 256, 768, 3072, 12, 12},     {"medium", 10000, 256, 1024, 4096, 24, 16},
      {"large", 10000, 256, 1280, 5120, 36, 20},    {"xl", 10000, 256, 1600, 6400, 48, 25},
      {"2.35b", 10000, 256, 3200, 25600, 8, 4},     {"2.7b", 10000, 256, 2560, 10240, 32, 32},
      {"xl-2026", 10000, 256, 2560, 10240, 32, 32}, {"10b", 10000, 256, 4608, 12288, 50, 36},
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
  const Architecture& a = c.architecture;
  const auto only_if = [](bool condition, std::int64_t count) { return condition ? count : std::int64_t{0}; };
  const std::int64_t queries = product({c.heads, c.head_size()});
  const std::int64_t keys = product({c.kv_heads(), c.head_size()});
  const std::int64_t norm = a.norm == Norm::layer_norm ? product({2, c.d_model}) : c.d_model;
  const std::int64_t projections =
      sum({product({2, queries, c.d_model}), product({2, keys, c.d_model}),
           only_if(a.projection_bias, sum({queries, keys, keys})), only_if(a.output_bias, c.d_model),
           only_if(a.projection_norm == ProjectionNorm::per_head, 2 * c.head_size()),
           only_if(a.projection_norm == ProjectionNorm::whole, sum({queries, keys}))});
  const std::int64_t layer =
      sum({projections, feed_forward_parameters(c), product({a.placement == NormPlacement::both ? 4 : 2, norm})});
  return sum({product({c.layers, layer}), product({a.tied_head ? 1 : 2, c.vocab, c.d_model}), norm,
              only_if(a.positions == Positions::learned, product({a.max_context, c.d_model}))});
}

namespace {

void validate_heads(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  if (a.head_size == 0 && c.d_model % c.heads != 0) {
    throw Error("--heads " + std::to_string(c.heads) + " does not divide --d-model " + std::to_string(c.d_model) +
                    "; every head needs the same width",
                ErrorKind::usage);
  }
  if (c.heads % c.kv_heads() != 0) {
    throw Error("the " + std::to_string(c.kv_heads()) + " heads of keys and values do not divide the " +
                    std::to_string(c.heads) + " heads of queries",
                ErrorKind::usage);
  }
  if (a.positions == Positions::rotary && a.rotary.share == 1 && c.head_size() % 2 != 0) {
    throw Error("--d-model " + std::to_string(c.d_model) + " over --heads " + std::to_string(c.heads) +
                    " gives the odd head size " + std::to_string(c.head_size()) +
                    "; rotary embedding needs an even one",
                ErrorKind::usage);
  }
}

void validate_experts(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  if (a.experts.count == 0) return;
  if (a.experts.per_token < 1 || a.experts.per_token > a.experts.count) {
    throw Error("a token cannot have " + std::to_string(a.experts.per_token) + " of " +
                    std::to_string(a.experts.count) + " experts",
                ErrorKind::usage);
  }
  if (!a.gated || a.activation != Activation::silu || a.feed_forward_bias)
    throw Error("experts are SwiGLU networks without biases; other ones are not supported", ErrorKind::unsupported);
}

}  // namespace

void validate(const TransformerConfig& c, std::int64_t batch) {
  const std::pair<std::int64_t, const char*> sizes[] = {
      {batch, "--batch"}, {c.context, "--context"}, {c.vocab, "--vocab"}, {c.d_model, "--d-model"},
      {c.d_ff, "--d-ff"}, {c.layers, "--layers"},   {c.heads, "--heads"}};
  for (const auto& [value, option] : sizes) {
    if (value >= 1) continue;
    throw Error(std::string(option) + " is " + std::to_string(value) + "; it must be at least 1", ErrorKind::usage);
  }
  if (c.layers > kMostLayers) {
    throw Error("--layers is " + std::to_string(c.layers) + "; the most are " + std::to_string(kMostLayers) +
                    ", because the graph of a model has dozens of nodes for each",
                ErrorKind::usage);
  }
  validate_heads(c);
  validate_experts(c);
  if (c.architecture.positions == Positions::learned && c.context > c.architecture.max_context) {
    throw Error("--context " + std::to_string(c.context) + " is longer than the " +
                    std::to_string(c.architecture.max_context) + " learned positions of the model",
                ErrorKind::usage);
  }
  parameter_count(c);
  // These are the two largest activations, in bytes of the widest dtype.
  checked_product({8, batch, c.context, std::max(c.vocab, c.d_ff)}, "the size of the logits");
  checked_product({8, batch, c.context, c.context, c.heads}, "the size of the attention scores");
}

}  // namespace ridgepoint
