#include <algorithm>

#include "core/checked.h"
#include "core/text/nearest.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

constexpr const char* kCount = "the parameter count";

std::int64_t product(std::initializer_list<std::int64_t> factors) { return checked_product(factors, kCount); }
std::int64_t sum(std::initializer_list<std::int64_t> terms) { return checked_sum(terms, kCount); }
std::int64_t only_if(bool condition, std::int64_t count) { return condition ? count : 0; }

// Of one layer of a feed-forward network of this width, with or without biases.
std::int64_t network_parameters(const TransformerConfig& c, std::int64_t model, std::int64_t width, bool has_biases) {
  const std::int64_t inner = (c.architecture.gated ? 2 : 1) + (c.architecture.third_factor ? 1 : 0);
  const std::int64_t weights = product({inner + 1, model, width});
  return has_biases ? sum({weights, product({inner, width}), model}) : weights;
}

// Of one layer with experts: the router, the experts, and the shared expert with its gate.
std::int64_t expert_parameters(const TransformerConfig& c) {
  const Experts& experts = c.architecture.experts;
  const std::int64_t shared = experts.shared_width;
  const std::int64_t latent = experts.rules.latent_width;
  return sum({product({experts.count, c.d_model + (experts.rules.has_router_bias ? 1 : 0)}),
              only_if(experts.rules.router_epsilon > 0, c.d_model),
              only_if(experts.rules.has_expert_scales, experts.count),
              product({experts.count,
                       network_parameters(c, latent > 0 ? latent : c.d_model, c.d_ff, experts.rules.has_biases)}),
              product({2, latent, c.d_model}), only_if(shared > 0, network_parameters(c, c.d_model, shared, false)),
              only_if(shared > 0 && experts.shared_gate, c.d_model)});
}

std::int64_t latent_parameters(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  const LatentAttention& latent = a.latent;
  const std::int64_t queries = product({c.heads, c.head_size()});
  const std::int64_t per_head = c.head_size() - latent.rotated + latent.value_size;
  const std::int64_t joint = sum({latent.kv_rank, latent.rotated});
  return sum({latent.q_rank == 0 ? product({queries, c.d_model})
                                 : product({latent.q_rank, sum({c.d_model, queries, 1 + (a.projection_bias ? 1 : 0)})}),
              product({joint, c.d_model + (a.projection_bias ? 1 : 0)}), latent.kv_rank,
              product({latent.kv_rank, c.heads, per_head}), product({c.heads, latent.value_size, c.d_model}),
              only_if(a.output_bias, c.d_model)});
}

std::int64_t attention_parameters(const TransformerConfig& c, std::int64_t layer) {
  const Architecture& a = c.architecture;
  if (a.compressed.q_rank > 0)
    return compressed_attention_parameters(a.compressed, a.compressed.compression(layer), c.d_model, c.heads,
                                           c.head_size());
  const std::int64_t low_rank = a.latent.q_rank > 0 ? a.latent.q_rank : c.d_model;
  const std::int64_t indexer =
      a.selection.has_indexer(layer) ? indexer_parameters(a.selection, c.d_model, low_rank) : 0;
  if (a.latent.kv_rank > 0) return sum({latent_parameters(c), indexer});
  const std::int64_t size = c.head_size(layer);
  const std::int64_t queries = product({c.heads, size});
  const bool has_keys = c.has_keys(layer);
  const std::int64_t keys = has_keys ? product({c.kv_heads(layer), size}) : 0;
  const std::int64_t projections = c.keys_are_values(layer) ? 1 : 2;  // of keys and values
  const bool has_norm_of_head =
      a.projection_norm == ProjectionNorm::per_head || a.projection_norm == ProjectionNorm::rotated;
  const std::int64_t gate = only_if(a.output_gate, product({queries, c.d_model + (a.projection_bias ? 1 : 0)}));
  return sum({product({2, queries, c.d_model}), product({projections, keys, c.d_model}), gate,
              only_if(a.projection_bias, sum({queries, product({projections, keys})})),
              only_if(a.output_bias, c.d_model), only_if(has_norm_of_head, (has_keys ? 2 : 1) * size),
              only_if(a.projection_norm == ProjectionNorm::whole || a.projection_norm == ProjectionNorm::each_head,
                      sum({queries, keys})),
              only_if(a.sinks, c.heads), indexer});
}

// Of one layer of several streams, and of the projections before and after all layers.
std::int64_t updates_of_layer(const TransformerConfig& c) {
  const std::int64_t n = c.architecture.updates.streams;
  return only_if(n > 0, sum({product({n + 2, c.d_model}), product({n, n, n + 1})}));
}
std::int64_t stream_projections(const TransformerConfig& c) {
  const std::int64_t n = c.architecture.updates.streams;
  return only_if(n > 0, product({2, n - 1, c.d_model, c.d_model}));
}

std::int64_t norms_of_layer(const Architecture& a, std::int64_t layer) {
  if (a.block == BlockOrder::side_by_side_one_norm) return 1;
  const std::int64_t parts = (a.mixer(layer) != Mixer::none ? 1 : 0) + (a.has_feed_forward(layer) ? 1 : 0);
  return (a.placement == NormPlacement::both ? 2 * parts : parts) + (a.per_layer.width > 0 ? 1 : 0) +
         (a.low_rank > 0 ? 1 : 0);
}

std::int64_t norm_parameters(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  const bool has_biases = a.norm == Norm::layer_norm && a.norm_biases;
  return only_if(a.norm_weights, product({has_biases ? 2 : 1, c.d_model}));
}

constexpr std::int64_t kNormsBesideDense = 3;

std::int64_t layer_parameters(const TransformerConfig& c, std::int64_t layer) {
  const Architecture& a = c.architecture;
  const Mixer mixer = a.mixer(layer);
  std::int64_t count = sum({product({norms_of_layer(a, layer), norm_parameters(c)}),
                            product({2, sum({a.per_layer.width, a.low_rank}), c.d_model}), updates_of_layer(c),
                            product({2, connection_parameters(a.connections, c.d_model)})});
  if (attends(mixer)) count = sum({count, attention_parameters(c, layer)});
  if (has_state(mixer)) count = sum({count, mixer_parameters(state_mixer_of(mixer), a.state, c.d_model)});
  if (!a.has_feed_forward(layer)) return count;
  const bool has_experts = a.has_experts(layer);
  const std::int64_t norms = a.experts.beside_dense ? kNormsBesideDense : a.experts.before_dense ? 1 : 0;
  return sum({count,
              only_if(a.has_dense(layer), network_parameters(c, c.d_model, c.dense_width(layer), a.feed_forward_bias)),
              has_experts ? expert_parameters(c) : 0, only_if(has_experts, product({norms, norm_parameters(c)}))});
}

// The second embedding, the projection of the first one, and their norm.
std::int64_t per_layer_parameters(const TransformerConfig& c) {
  const PerLayerInputs& inputs = c.architecture.per_layer;
  return sum({product({c.layers, inputs.width, sum({inputs.vocab, c.d_model})}), inputs.width});
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
  const Architecture& a = c.architecture;
  const std::int64_t norm = norm_parameters(c);
  std::int64_t layers = 0;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) layers = sum({layers, layer_parameters(c, layer)});
  return sum({layers, stream_projections(c), last_connection_parameters(a.connections, c.d_model),
              only_if(a.per_layer.width > 0, per_layer_parameters(c)),
              product({a.tied_head || a.images.size > 0 ? 1 : 2, c.vocab, c.d_model}),
              product({a.unpredicted_tokens, c.d_model}),
              only_if(a.images.size > 0, product({c.d_model, a.images.values() + 2})), only_if(a.head_bias, c.vocab),
              product({(a.final_norm ? 1 : 0) + (a.embedding_norm ? 1 : 0) + (a.head_transform ? 1 : 0), norm}),
              only_if(a.head_transform, product({c.d_model, sum({c.d_model, 1})})), product({a.token_types, c.d_model}),
              only_if(a.positions == Positions::learned, product({a.unused_positions + a.max_context, c.d_model}))});
}

std::int64_t frozen_parameter_count(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  const std::int64_t low_rank = a.latent.q_rank > 0 ? a.latent.q_rank : c.d_model;
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    if (a.selection.has_indexer(layer)) count = sum({count, indexer_parameters(a.selection, c.d_model, low_rank)});
    if (a.compressed.compression(layer) == Compression::overlapping)
      count = sum({count, compressed_indexer_parameters(a.compressed, c.d_model)});
  }
  return count;
}

namespace {

void validate_heads(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  if (a.head_size == 0 && c.d_model % c.heads != 0) {
    throw Error("--heads " + std::to_string(c.heads) + " does not divide --d-model " + std::to_string(c.d_model) +
                    "; every head needs the same width",
                ErrorKind::usage);
  }
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    if (c.heads % c.kv_heads(layer) == 0) continue;
    throw Error("the " + std::to_string(c.kv_heads(layer)) + " heads of keys and values do not divide the " +
                    std::to_string(c.heads) + " heads of queries of layer " + std::to_string(layer),
                ErrorKind::usage);
  }
  bool rotates = false;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) rotates = rotates || a.is_rotated(layer);
  if (rotates && a.rotary.share == 1 && c.head_size() % 2 != 0) {
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
  const bool has_square = a.experts.rules.squared_relu;
  const bool has_limits = a.experts.rules.limit > 0 || a.experts.rules.weighs_inputs;
  const bool is_known = has_square ? !a.gated && a.activation == Activation::relu_squared
                                   : a.gated && (a.activation == Activation::silu || !has_limits);
  if (!is_known) {
    throw Error(
        "experts are gated networks, of SwiGLU where it has limits, or have a squared ReLU and no gate; other "
        "ones are not supported",
        ErrorKind::unsupported);
  }
  const ExpertRules& rules = a.experts.rules;
  if (rules.scores == RouterScores::sparse_mixer && a.experts.per_token != 2)
    throw Error("SparseMixer chooses 2 experts for a token; here are " + std::to_string(a.experts.per_token),
                ErrorKind::usage);
  if (rules.groups < 1 || rules.groups_per_token < 1 || rules.groups_per_token > rules.groups ||
      a.experts.count % rules.groups != 0 ||
      a.experts.per_token > a.experts.count / rules.groups * rules.groups_per_token) {
    throw Error(std::to_string(a.experts.per_token) + " experts of a token do not fit into " +
                    std::to_string(rules.groups_per_token) + " of " + std::to_string(rules.groups) + " groups of " +
                    std::to_string(a.experts.count) + " experts",
                ErrorKind::usage);
  }
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    if (a.has_dense(layer) && a.experts.dense_width < 1)
      throw Error("layer " + std::to_string(layer) + " has no experts and no width of its own", ErrorKind::usage);
  }
}

void validate_latent(const TransformerConfig& c) {
  const LatentAttention& latent = c.architecture.latent;
  if (latent.kv_rank == 0) return;
  if (latent.rotated < 2 || latent.rotated % 2 != 0 || latent.rotated >= c.head_size() || latent.value_size < 1 ||
      latent.value_size > c.head_size()) {
    throw Error("latent attention rotates an even part of a head, and a head of values is no wider than one of " +
                    std::to_string(c.head_size()) + "; here are " + std::to_string(latent.rotated) + " and " +
                    std::to_string(latent.value_size),
                ErrorKind::usage);
  }
}

void validate_selection(const TransformerConfig& c) {
  const KeySelection& s = c.architecture.selection;
  if (s.heads == 0) return;
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw Error("the keys that an indexer chooses: " + what, ErrorKind::usage);
  };
  require(s.head_size > 0 && s.rotated >= 2 && s.rotated % 2 == 0 && s.rotated <= s.head_size,
          "it rotates an even part of its heads, of " + std::to_string(s.head_size) + " elements; here are " +
              std::to_string(s.rotated));
  require(s.kept >= 1 && s.block >= 0 && s.local >= 0 && s.local <= s.kept,
          "a query keeps one or more, with " + std::to_string(s.local) + " blocks that are kept always among " +
              std::to_string(s.kept));
  require(s.block == 0 || s.heads == 1 || s.heads == c.kv_heads(),
          "its " + std::to_string(s.heads) + " heads are neither one nor a head for each of the " +
              std::to_string(c.kv_heads()) + " of keys");
  require(s.block > 0 || c.architecture.latent.q_rank > 0, "it reads the low rank of queries, which this model lacks");
  require(!s.others_share || s.has_indexer(0), "the first layer has no layer before it whose choice it could take");
}

void validate_compressed(const TransformerConfig& c) {
  const CompressedAttention& a = c.architecture.compressed;
  if (a.q_rank == 0) return;
  if (a.rotated < 2 || a.rotated % 2 != 0 || a.rotated > std::min(c.head_size(), a.index_size) || a.groups < 1 ||
      c.heads % a.groups != 0 || a.group_rank < 1 || a.overlapping_rate < 1 || a.heavy_rate < 1 || a.index_heads < 1 ||
      a.index_kept < 1 || a.layers.empty() || c.architecture.window < 1)
    throw Error(
        "attention to compressed keys rotates an even part of its heads and of its indexer's, has groups that "
        "divide the heads, a window, and positive sizes",
        ErrorKind::usage);
}

void validate_mixers(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const Mixer mixer = a.mixer(layer);
    if (has_state(mixer)) validate(state_mixer_of(mixer), a.state);
    if (mixer == Mixer::none && !a.has_feed_forward(layer))
      throw Error("layer " + std::to_string(layer) + " has neither a mixer nor a feed-forward network",
                  ErrorKind::usage);
  }
}

// Each layer without keys has those of one before it.
void validate_shared_keys(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  bool has_full = false, has_window = false;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    bool& has_kind = a.has_window(layer) ? has_window : has_full;
    has_kind = has_kind || c.has_keys(layer);
    if (!has_kind)
      throw Error("layer " + std::to_string(layer) + " has no keys of its own, and no layer before it with" +
                      (a.has_window(layer) ? "" : "out") + " a window has any; fewer layers may share keys",
                  ErrorKind::usage);
  }
}

void validate_encoder(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  if (!a.is_causal && a.window > 0)
    throw Error("windows of a model that is not causal are not supported", ErrorKind::unsupported);
}

void validate_linear_bias(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  if (a.positions == Positions::linear_bias && (c.kv_heads() != c.heads || a.chunks || a.latent.kv_rank > 0))
    throw Error("ALiBi needs a head of keys for each head of queries, over the whole sequence", ErrorKind::unsupported);
}

void validate_streams(const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  const AlternatingUpdates& updates = a.updates;
  const bool is_of_layers = a.sparsity.empty() || a.sparsity.size() == static_cast<std::size_t>(c.layers);
  const bool is_share = std::ranges::all_of(a.sparsity, [](double share) { return share >= 0 && share < 1; });
  if (!is_of_layers || !is_share)
    throw Error("the sparsity of activations is a share from 0 to below 1 for each layer", ErrorKind::usage);
  if (updates.streams == 0) return;
  if (updates.streams < 2 || updates.active < 0 || updates.active >= updates.streams || a.low_rank < 1 ||
      a.per_layer.width < 1 || a.experts.count > 0)
    throw Error("several streams need two or more, one of them active, a low rank, and vectors for each layer",
                ErrorKind::usage);
}

}  // namespace

void validate_layers(const TransformerConfig& c) {
  validate_mixers(c);
  validate_experts(c);
  validate_latent(c);
  validate_selection(c);
  validate_compressed(c);
  validate_shared_keys(c);
  validate_linear_bias(c);
  validate_encoder(c);
  validate_streams(c);
}

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
  validate_layers(c);
  if (c.architecture.positions == Positions::learned && c.context > c.architecture.max_context) {
    throw Error("--context " + std::to_string(c.context) + " is longer than the " +
                    std::to_string(c.architecture.max_context) + " learned positions of the model",
                ErrorKind::usage);
  }
  if (const Images& images = c.architecture.images; images.size > 0 && c.context != images.patches() + 1) {
    throw Error("--context " + std::to_string(c.context) + ": an image of this model has " +
                    std::to_string(images.patches() + 1) + " tokens, its patches and the class",
                ErrorKind::usage);
  }
  parameter_count(c);
  // These are the two largest activations, in bytes of the widest dtype.
  checked_product({8, batch, c.context, std::max(c.vocab, c.d_ff)}, "the size of the logits");
  checked_product({8, batch, c.context, c.context, c.heads}, "the size of the attention scores");
}

}  // namespace ridgepoint
