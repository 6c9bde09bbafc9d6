#include "interchange/huggingface/weights/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

// One after the other along the output dimension, unless they say where they are. Returns the rows of all.
std::int64_t place(std::vector<WeightPart>& parts) {
  std::int64_t rows = 0;
  for (WeightPart& part : parts) {
    if (part.places.together == 0) part.places = {rows, part.rows, part.rows};
    rows += part.rows;
  }
  return rows;
}

std::string joined(std::string_view prefix, std::string_view name) {
  return prefix.empty() || prefix.ends_with('.') ? fmt::format("{}{}", prefix, name)
                                                 : fmt::format("{}.{}", prefix, name);
}

// The names in files of a mixer's parameters of one dimension.
const std::map<std::string_view, std::string_view> kMixerVectors = {
    {"step_bias", "dt_bias"}, {"log_decay", "A_log"}, {"skip", "D"}, {"out_norm.weight", "norm.weight"}};

// The tensors of a model, under the names that its family gives them.
class WeightList {
 public:
  explicit WeightList(const TransformerConfig& config) : c_(config), names_(family_of(config).names) {}

  std::vector<StoredWeight> run() {
    const Architecture& a = c_.architecture;
    const std::string model(names_.model);
    if (a.images.size > 0) {
      add_patches(model);
    } else {
      const bool has_more = !names_.more_embeddings.empty();  // modules of their own, whose weights are the tensors
      matrix(fmt::format("{}{}{}", model, names_.embedding, has_more ? "" : ".weight"), c_.d_model,
             {{"token_embeddings.weight", c_.vocab}});
      if (a.unpredicted_tokens > 0)
        matrix(fmt::format("{}{}", model, names_.more_embeddings), c_.d_model,
               {{.parameter = "token_embeddings.weight", .rows = a.unpredicted_tokens, .first = c_.vocab}});
    }
    if (a.embedding_norm) norm(fmt::format("{}{}", model, names_.embedding_norm), "ln_embeddings");
    add_stream_projections(model);
    if (a.per_layer.width > 0) add_per_layer_inputs(model);
    if (a.token_types > 0)
      matrix(fmt::format("{}{}.weight", model, names_.token_types), c_.d_model,
             {{"token_type_embeddings.weight", a.token_types}});
    if (a.positions == Positions::learned && a.images.size == 0)
      matrix(fmt::format("{}{}.weight", model, names_.positions), c_.d_model,
             {{"position_embeddings.weight", a.unused_positions + a.max_context}});
    for (std::int64_t i = 0; i < c_.layers; ++i)
      add_layer(fmt::format("{}{}.{}.", model, names_.layers, i), fmt::format("layers.{}.", i), i);
    if (a.connections.streams > 0) add_connection(model + "hc_head", "head_streams", a.connections.streams, 1);
    if (a.final_norm) norm(fmt::format("{}{}", model, names_.final_norm), "ln_final");
    if (a.head_transform) {
      linear(std::string(names_.head), names_.head_transform, c_.d_model, {{"head_transform", c_.d_model}}, true);
      norm(fmt::format("{}.{}", names_.head, names_.head_norm), "ln_head");
    }
    if (!a.tied_head) matrix(fmt::format("{}.weight", names_.head), c_.d_model, {{"lm_head.weight", c_.vocab}});
    if (a.head_bias) vector(fmt::format("{}.bias", names_.head), {{"lm_head.bias", c_.vocab}});
    return std::move(weights_);
  }

 private:
  void matrix(std::string name, std::int64_t in, std::vector<WeightPart> parts, bool is_transposed = false) {
    const std::int64_t out = place(parts);
    const Shape shape = is_transposed ? Shape{in, out} : Shape{out, in};
    weights_.push_back({std::move(name), shape, is_transposed, std::move(parts)});
  }
  void vector(std::string name, std::vector<WeightPart> parts) {
    const std::int64_t size = place(parts);
    weights_.push_back({std::move(name), Shape{size}, false, std::move(parts)});
  }

  // A linear layer: the weight, and the bias if it has one.
  void linear(const std::string& module, std::string_view name, std::int64_t in, const std::vector<WeightPart>& layers,
              bool has_bias = false) {
    const auto with = [&](const char* what) {
      std::vector<WeightPart> parts = layers;
      for (WeightPart& part : parts) part.parameter += what;
      return parts;
    };
    matrix(joined(module, name) + ".weight", in, with(".weight"), names_.is_transposed);
    if (has_bias) vector(joined(module, name) + ".bias", with(".bias"));
  }

  void norm(const std::string& name, const std::string& parameter) {
    const Architecture& a = c_.architecture;
    if (!a.norm_weights) return;
    vector(name + ".weight", {{parameter + ".weight", c_.d_model}});
    if (a.norm == Norm::layer_norm && a.norm_biases) vector(name + ".bias", {{parameter + ".bias", c_.d_model}});
  }

  // `file` and `layer` are the prefixes of the layer in the file and in this program.
  void add_layer(const std::string& file, const std::string& layer, std::int64_t index) {
    const Architecture& a = c_.architecture;
    const Mixer mixer = a.mixer(index);
    const std::size_t first = mixer == Mixer::none ? 2 : 0;
    const std::size_t last = a.has_feed_forward(index) ? 4 : 2;
    if (names_.norms_in_between) add_norms(file, layer, first, 2);
    if (a.connections.streams > 0) {
      const std::int64_t n = a.connections.streams;
      add_connection(file + "hc_attn", layer + "attn_streams", n * (n + 2), 3);
      add_connection(file + "hc_ffn", layer + "ffn_streams", n * (n + 2), 3);
    }
    if (a.compressed.q_rank > 0) {
      add_compressed_attention(file + std::string(names_.attention), layer + "attn", a.compressed.compression(index));
    } else if (attends(mixer) && a.latent.kv_rank > 0) {
      add_latent_attention(file + std::string(names_.attention), layer + "attn");
    } else if (attends(mixer)) {
      add_attention(file + std::string(names_.attention), layer + "attn", index);
    }
    if (attends(mixer) && a.selection.has_indexer(index))
      add_indexer(joined(file + std::string(names_.attention), "indexer"), layer + "attn.indexer");
    if (has_state(mixer)) add_mixer(file + std::string(names_.mixer), layer + "mixer.", state_mixer_of(mixer));
    if (names_.norms_in_between) add_norms(file, layer, 2, last);
    const bool has_experts = a.has_experts(index);
    const bool is_behind = a.experts.before_dense && has_experts;
    if (has_experts)
      add_experts(file, file + std::string(names_.experts), layer + "ffn", index < a.experts.hashed_layers);
    if (a.has_dense(index))
      add_feed_forward(file + std::string(is_behind ? "extra_mlp" : names_.feed_forward), layer + "ffn",
                       c_.dense_width(index), a.feed_forward_bias);
    if (!names_.norms_in_between) add_norms(file, layer, first, last);
    if (is_behind) norm(file + "pre_extra_mlp_layernorm", layer + "ln2_dense");
    if (a.experts.beside_dense && has_experts) {
      norm(file + "post_feedforward_layernorm_1", layer + "ln2_dense_after");
      norm(file + "pre_feedforward_layernorm_2", layer + "ln2_experts");
      norm(file + "post_feedforward_layernorm_2", layer + "ln2_experts_after");
    }
    if (const std::int64_t width = a.per_layer.width; width > 0) {
      linear(file, "per_layer_input_gate", c_.d_model, {{layer + "per_layer_gate", width}});
      linear(file, "per_layer_projection", width, {{layer + "per_layer_output", c_.d_model}});
      norm(file + "post_per_layer_input_norm", layer + "ln_per_layer");
    }
    if (a.updates.streams > 0) add_updates(file, layer);
    if (a.layer_scalars) {
      vector(file + "layer_scalar", {{fmt::format("layers.{}{}", index, kLayerScalar), 1}});
      weights_.back().is_constant = true;
    }
  }

  void add_updates(const std::string& file, const std::string& layer) {
    const std::int64_t n = c_.architecture.updates.streams;
    const std::int64_t rank = c_.architecture.low_rank;
    linear(file, "altup.prediction_coefs", n, {{layer + "altup.prediction", n * n}});
    linear(file, "altup.correction_coefs", n, {{layer + "altup.correction", n}});
    linear(file, "altup.modality_router", c_.d_model, {{layer + "altup.router", n}});
    norm(file + "altup.router_norm", layer + "altup.router_norm");
    vector(file + "altup.correct_output_scale", {{layer + "altup.output_scale", c_.d_model}});
    linear(file, "laurel.linear_left", c_.d_model, {{layer + "low_rank.left", rank}});
    linear(file, "laurel.linear_right", rank, {{layer + "low_rank.right", c_.d_model}});
    norm(file + "laurel.post_laurel_norm", layer + "low_rank.ln");
  }

  void add_stream_projections(const std::string& model) {
    for (std::int64_t i = 0; i + 1 < c_.architecture.updates.streams; ++i) {
      const std::string number = std::to_string(i);
      linear(model, "altup_projections." + number, c_.d_model, {{"altup.projections." + number, c_.d_model}});
      linear(model, "altup_unembed_projections." + number, c_.d_model,
             {{"altup.last_projections." + number, c_.d_model}});
    }
  }

  // The class token and the positions have a first dimension of 1; the projection of patches is a convolution.
  void add_patches(const std::string& model) {
    const Images& images = c_.architecture.images;
    const std::int64_t tokens = images.patches() + 1;
    const auto stored_as = [&](const Shape& shape) {
      weights_.back().matrix = std::exchange(weights_.back().shape, shape);
    };
    matrix(model + "embeddings.cls_token", c_.d_model, {{"class_token.weight", 1}});
    stored_as({1, 1, c_.d_model});
    matrix(model + "embeddings.position_embeddings", c_.d_model, {{"position_embeddings.weight", tokens}});
    stored_as({1, tokens, c_.d_model});
    linear(model, names_.embedding, images.values(), {{"patch_embeddings", c_.d_model}});
    stored_as({c_.d_model, images.channels, images.patch, images.patch});
    vector(fmt::format("{}{}.bias", model, names_.embedding), {{"patch_embeddings.bias", c_.d_model}});
  }

  void add_per_layer_inputs(const std::string& model) {
    const PerLayerInputs& inputs = c_.architecture.per_layer;
    const std::int64_t all = c_.layers * inputs.width;
    matrix(model + "embed_tokens_per_layer.weight", all, {{"per_layer_embeddings.weight", inputs.vocab}});
    matrix(model + "per_layer_model_projection.weight", c_.d_model, {{"per_layer_projection.weight", all}});
    vector(model + "per_layer_projection_norm.weight", {{"per_layer_norm.weight", inputs.width}});
  }

  void add_norms(const std::string& file, const std::string& layer, std::size_t begin, std::size_t end) {
    constexpr std::array kParameters = {"ln1", "ln1_after", "ln2", "ln2_after"};
    const bool are_others = c_.architecture.block == BlockOrder::side_by_side && !names_.side_by_side_norms[0].empty();
    const auto& norms = are_others ? names_.side_by_side_norms : names_.norms;
    // Norms that may stand before or after have the same name.
    const bool are_after = c_.architecture.placement == NormPlacement::after && norms[1].empty();
    for (std::size_t i = begin; i < end; ++i) {
      const bool is_shared = i == 2 && c_.architecture.block == BlockOrder::side_by_side_one_norm;
      if (!norms[i].empty() && !is_shared)
        norm(file + std::string(norms[i]), layer + kParameters[are_after ? i + 1 : i]);
    }
  }

  // Rows of rotated heads, which the files have in another order unless the family rotates adjacent elements.
  WeightPart of_heads(std::string parameter, std::int64_t rows, std::int64_t head_size, std::int64_t kept,
                      std::int64_t rotated) const {
    return {.parameter = std::move(parameter),
            .rows = rows,
            .rotated = names_.adjacent_pairs ? 0 : rotated,
            .head_size = head_size,
            .kept = kept};
  }

  void add_attention(const std::string& file, const std::string& layer, std::int64_t index) {
    const Architecture& a = c_.architecture;
    const std::int64_t size = c_.head_size(index);
    const Rotary& rotary = a.separate_rotary && a.has_window(index) ? a.window_rotary : a.rotary;
    // Pairs of the whole head, of which the first are rotated.
    const bool is_proportional = rotary.scaling == RotaryScaling::proportional;
    const std::int64_t rotated = !a.is_rotated(index) ? 0 : is_proportional ? size : rotated_width(c_, index);
    WeightPart q = of_heads(layer + ".q_proj", c_.heads * size, size, 0, rotated);
    WeightPart k = of_heads(layer + ".k_proj", c_.kv_heads(index) * size, size, 0, rotated);
    WeightPart v{.parameter = layer + ".v_proj", .rows = c_.kv_heads(index) * size};
    const std::int64_t queries = q.rows;
    const bool has_keys = c_.has_keys(index);
    if (!names_.qkv.empty()) {
      if (names_.qkv_by_group) place_by_group(q, k, v);
      linear(file, names_.qkv, c_.d_model, {q, k, v}, a.projection_bias);
    } else {
      std::vector<WeightPart> of_queries = {q};
      if (a.output_gate) {  // of each head its queries, then its gates
        of_queries[0].places = {0, size, 2 * size};
        of_queries.push_back({.parameter = layer + ".gate_proj", .rows = queries, .places = {size, size, 2 * size}});
      }
      linear(file, names_.q, c_.d_model, of_queries, a.projection_bias);
      if (has_keys) linear(file, names_.k, c_.d_model, {k}, a.projection_bias);
      if (has_keys && !c_.keys_are_values(index)) linear(file, names_.v, c_.d_model, {v}, a.projection_bias);
    }
    // Values that are keys have the order of keys.
    WeightPart output{.parameter = layer + ".output_proj", .rows = c_.d_model};
    if (c_.keys_are_values(index) && !names_.adjacent_pairs) {
      output.column_heads = size;
      output.rotated_columns = rotated;
    }
    linear(file, names_.output, queries, {output}, a.output_bias);
    if (a.sinks) vector(file + ".sinks", {{layer + ".sinks", c_.heads}});
    if (a.projection_norm == ProjectionNorm::none || a.projection_norm == ProjectionNorm::unweighted) return;
    if (a.projection_norm == ProjectionNorm::each_head) {
      add_norms_of_heads(fmt::format("{}.{}", file, names_.q_norm), layer + ".q_norm.weight", c_.heads, rotated);
      add_norms_of_heads(fmt::format("{}.{}", file, names_.k_norm), layer + ".k_norm.weight", c_.kv_heads(), rotated);
      return;
    }
    const bool is_whole = a.projection_norm == ProjectionNorm::whole;
    const auto add_norm = [&](std::string_view name, const char* own, std::int64_t rows) {
      vector(joined(file, name) + ".weight",
             {of_heads(fmt::format("{}.{}.weight", layer, own), is_whole ? rows : size, size, 0, rotated)});
    };
    add_norm(names_.q_norm, "q_norm", queries);
    if (has_keys) add_norm(names_.k_norm, "k_norm", c_.kv_heads() * size);
  }

  // A row for each head, or a tensor.
  void add_norms_of_heads(const std::string& file, const std::string& parameter, std::int64_t heads,
                          std::int64_t rotated) {
    const std::int64_t size = c_.head_size();
    if (!names_.head_norms_apart) return matrix(file + ".weight", size, {{parameter, heads}});
    for (std::int64_t head = 0; head < heads; ++head) {
      WeightPart part = of_heads(parameter, size, size, 0, rotated);
      part.expert = head;
      vector(fmt::format("{}.norms.{}.weight", file, head), {part});
    }
  }

  // For each head of keys its queries, then the key, then the value.
  void place_by_group(WeightPart& q, WeightPart& k, WeightPart& v) const {
    const std::int64_t size = c_.head_size();
    const std::int64_t queries = c_.heads / c_.kv_heads() * size;
    const std::int64_t group = queries + 2 * size;
    q.places = {0, queries, group};
    k.places = {queries, size, group};
    v.places = {queries + size, size, group};
  }

  void add_latent_attention(const std::string& file, const std::string& layer) {
    const Architecture& a = c_.architecture;
    const LatentAttention& latent = a.latent;
    const std::int64_t size = c_.head_size();
    const std::int64_t kept = size - latent.rotated;
    const auto q = [&](const char* name) {
      return of_heads(layer + name, c_.heads * size, size, kept, latent.rotated);
    };
    if (latent.q_rank == 0) {
      linear(file, "q_proj", c_.d_model, {q(".q_proj")});
    } else {
      linear(file, "q_a_proj", c_.d_model, {{layer + ".q_a_proj", latent.q_rank}}, a.projection_bias);
      vector(file + ".q_a_layernorm.weight", {{layer + ".q_norm.weight", latent.q_rank}});
      linear(file, "q_b_proj", latent.q_rank, {q(".q_b_proj")});
    }
    const std::int64_t joint = latent.kv_rank + latent.rotated;
    linear(file, "kv_a_proj_with_mqa", c_.d_model,
           {of_heads(layer + ".kv_a_proj", joint, joint, latent.kv_rank, latent.rotated)}, a.projection_bias);
    vector(file + ".kv_a_layernorm.weight", {{layer + ".kv_norm.weight", latent.kv_rank}});
    linear(file, "kv_b_proj", latent.kv_rank, {{layer + ".kv_b_proj", c_.heads * (kept + latent.value_size)}});
    linear(file, names_.output, c_.heads * latent.value_size, {{layer + ".output_proj", c_.d_model}}, a.output_bias);
  }

  void add_connection(const std::string& file, const std::string& layer, std::int64_t rows, std::int64_t scales) {
    matrix(file + "_fn", c_.architecture.connections.streams * c_.d_model, {{layer + ".weight", rows}});
    vector(file + "_base", {{layer + ".bias", rows}});
    vector(file + "_scale", {{layer + ".scale", scales}});
  }

  void add_compressed_attention(const std::string& file, const std::string& layer, Compression kind) {
    const CompressedAttention& a = c_.architecture.compressed;
    const std::int64_t size = c_.head_size();
    const std::int64_t queries = c_.heads * size;
    linear(file, "wq_a", c_.d_model, {{layer + ".q_a_proj", a.q_rank}});
    vector(file + ".q_norm.weight", {{layer + ".q_a_norm.weight", a.q_rank}});
    linear(file, "wq_b", a.q_rank, {{layer + ".q_b_proj", queries}});
    linear(file, "wkv", c_.d_model, {{layer + ".kv_proj", size}});
    vector(file + ".kv_norm.weight", {{layer + ".kv_norm.weight", size}});
    linear(file, "wo_a", queries / a.groups, {{layer + ".output_a_proj", a.groups * a.group_rank}});
    linear(file, "wo_b", a.groups * a.group_rank, {{layer + ".output_b_proj", c_.d_model}});
    vector(file + ".attn_sink", {{layer + ".sinks", c_.heads}});
    if (kind == Compression::none) return;
    add_compressor(file + ".compressor", layer + ".compressor", kind, size);
    if (kind == Compression::heavy) return;
    add_compressor(file + ".indexer.compressor", layer + ".compressor.indexer", kind, a.index_size);
    linear(file, "indexer.wq_b", a.q_rank, {{layer + ".compressor.indexer.queries", a.index_heads * a.index_size}});
    linear(file, "indexer.weights_proj", c_.d_model, {{layer + ".compressor.indexer.head_weights", a.index_heads}});
  }

  void add_compressor(const std::string& file, const std::string& layer, Compression kind, std::int64_t size) {
    const std::int64_t wide = (kind == Compression::overlapping ? 2 : 1) * size;
    linear(file, "wkv", c_.d_model, {{layer + ".values", wide}});
    linear(file, "wgate", c_.d_model, {{layer + ".gates", wide}});
    matrix(file + ".ape", wide, {{layer + ".position_bias", c_.architecture.compressed.rate(kind)}});
    vector(file + ".norm.weight", {{layer + ".norm.weight", size}});
  }

  void add_indexer(const std::string& file, const std::string& layer) {
    const KeySelection& s = c_.architecture.selection;
    const std::int64_t rank = c_.architecture.latent.q_rank;
    const auto heads = [&](const char* name, std::int64_t count) {
      return WeightPart{.parameter = layer + name,
                        .rows = count * s.head_size,
                        .rotated = names_.indexer_adjacent_pairs ? 0 : s.rotated,
                        .head_size = s.head_size};
    };
    const bool has_blocks = s.block > 0;
    linear(file, has_blocks ? "q_proj" : "wq_b", rank > 0 ? rank : c_.d_model, {heads(".queries", s.heads)});
    linear(file, has_blocks ? "k_proj" : "wk", c_.d_model, {heads(".keys", 1)});
    if (has_blocks) vector(file + ".q_norm.weight", {heads(".queries_norm.weight", 1)});
    vector(file + ".k_norm.weight", {heads(".keys_norm.weight", 1)});
    if (has_blocks) return;
    vector(file + ".k_norm.bias", {heads(".keys_norm.bias", 1)});
    linear(file, "weights_proj", c_.d_model, {{layer + ".head_weights", s.heads}});
  }

  void add_mixer(const std::string& file, const std::string& layer, Mixer mixer) {
    const StateMixer& s = c_.architecture.state;
    std::vector<WeightPart> inputs;
    std::int64_t channels = 0;
    for (const MixerPart& part : input_parts(mixer, s, c_.d_model)) {
      inputs.push_back(
          {.parameter = fmt::format("{}{}_proj", layer, part.module), .rows = part.width, .first = part.first});
      channels += part.is_convolved ? part.width : 0;
    }
    if (mixer == Mixer::gated_delta) {
      add_delta_inputs(file, std::move(inputs));
    } else {
      linear(file, "in_proj", c_.d_model, inputs, s.input_bias);
    }
    linear(file, names_.convolution, s.kernel, {{layer + "conv", channels}}, s.convolution_bias);
    StoredWeight& convolution = weights_[weights_.size() - (s.convolution_bias ? 2 : 1)];
    convolution.shape = Shape{convolution.shape[0], 1, s.kernel};
    for (const MixerVector& one : mixer_vectors(mixer, s))
      vector(joined(file, kMixerVectors.at(one.name)), {{layer + one.name, one.size}});
    linear(file, "out_proj", mixed_width(mixer, s, c_.d_model), {{layer + "output_proj", c_.d_model}}, s.output_bias);
  }

  // Queries, keys, values, gates, betas and steps.
  void add_delta_inputs(const std::string& file, std::vector<WeightPart> parts) {
    const StateMixer& s = c_.architecture.state;
    const auto add = [&](std::string_view name, std::size_t begin, std::size_t end) {
      linear(file, name, c_.d_model,
             {parts.begin() + static_cast<std::ptrdiff_t>(begin), parts.begin() + static_cast<std::ptrdiff_t>(end)},
             s.input_bias);
    };
    if (!names_.delta_by_group) {
      add("in_proj_qkv", 0, 3);
      add("in_proj_z", 3, 4);
      add("in_proj_b", 4, 5);
      add("in_proj_a", 5, 6);
      return;
    }
    const auto place_by_head_of_keys = [&](std::size_t begin, std::size_t end) {
      std::int64_t group = 0;
      for (std::size_t i = begin; i < end; ++i) group += parts[i].rows / s.key_heads;
      std::int64_t first = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const std::int64_t rows = parts[i].rows / s.key_heads;
        parts[i].places = {first, rows, group};
        first += rows;
      }
    };
    place_by_head_of_keys(0, 4);
    place_by_head_of_keys(4, 6);
    add("in_proj_qkvz", 0, 4);
    add("in_proj_ba", 4, 6);
  }

  void add_feed_forward(const std::string& file, const std::string& layer, std::int64_t width, bool has_bias) {
    const WeightPart first{layer + ".w1", width};
    const WeightPart up{layer + ".w3", width};
    if (!c_.architecture.gated) {
      linear(file, names_.up, c_.d_model, {first}, has_bias);
    } else if (!names_.gate_up.empty()) {
      const bool is_up_first = names_.up_before_gate;
      linear(file, names_.gate_up, c_.d_model, {is_up_first ? up : first, is_up_first ? first : up}, has_bias);
    } else {
      std::vector<WeightPart> gate = {first};
      if (c_.architecture.third_factor) gate.insert(gate.begin(), {layer + ".w4", width});
      linear(file, names_.gate, c_.d_model, gate, has_bias);
      linear(file, names_.up, c_.d_model, {up}, has_bias);
    }
    linear(file, names_.down, width, {{layer + ".w2", c_.d_model}}, has_bias);
  }

  // `of_layer` is the prefix of the layer in the file, `file` the module of the experts.
  void add_experts(const std::string& of_layer, const std::string& file, const std::string& layer, bool is_hashed) {
    const Experts& experts = c_.architecture.experts;
    const std::string router = joined(file, names_.router);
    matrix(names_.router_tensor.empty() ? router + ".weight" : joined(file, names_.router_tensor), c_.d_model,
           {{layer + ".router.weight", experts.count}});
    if (experts.rules.has_router_bias) vector(router + ".bias", {{layer + ".router.bias", experts.count}});
    if (experts.rules.router_epsilon > 0) vector(joined(file, "router.scale"), {{layer + ".router.scale", c_.d_model}});
    if (experts.rules.has_expert_scales)
      vector(joined(file, "router.per_expert_scale"), {{layer + ".router.expert_scale", experts.count}});
    if (is_hashed) {
      matrix(joined(file, "gate.tid2eid"), experts.per_token, {{fmt::format("{}.{}", layer, kExpertTable), c_.vocab}});
      weights_.back().is_constant = weights_.back().has_integers = true;
    } else if (experts.rules.has_correction) {
      vector(fmt::format("{}.{}", file, names_.correction), {{layer + ".router.correction", experts.count}});
      weights_.back().is_constant = true;
      if (names_.correction_is_row) {  // a matrix of one column, transposed
        weights_.back().shape = Shape{1, experts.count};
        weights_.back().is_transposed = true;
      }
    }
    if (names_.stored_experts == StoredExperts::one_by_one) {
      for (std::int64_t i = 0; i < experts.count; ++i) add_expert(file, layer, i);
    } else if (names_.stored_experts == StoredExperts::stacked) {
      add_stacked_experts(file, layer + ".experts.");
    } else {
      add_packed_experts(file, layer + ".experts.");
    }
    if (const std::int64_t latent = experts.rules.latent_width; latent > 0) {
      matrix(joined(file, "fc1_latent_proj.weight"), c_.d_model, {{layer + ".latent_in.weight", latent}});
      matrix(joined(file, "fc2_latent_proj.weight"), latent, {{layer + ".latent_out.weight", c_.d_model}});
    }
    if (experts.shared_width == 0) return;
    const std::string shared(names_.shared_expert);
    add_feed_forward(names_.shared_expert_in_layer ? of_layer + shared : joined(file, shared), layer + ".shared_expert",
                     experts.shared_width, false);
    if (experts.shared_gate)
      matrix(file + ".shared_expert_gate.weight", c_.d_model, {{layer + ".shared_expert_gate.weight", 1}});
  }

  void add_expert(const std::string& file, const std::string& layer, std::int64_t i) {
    const auto add = [&](std::string_view name, const char* parameter, std::int64_t in, std::int64_t out) {
      matrix(fmt::format("{}.experts.{}.{}.weight", file, i, name), in,
             {{.parameter = fmt::format("{}.experts.{}", layer, parameter), .rows = out, .expert = i}});
    };
    const bool is_gated = c_.architecture.gated;
    const std::int64_t latent = c_.architecture.experts.rules.latent_width;
    const std::int64_t width = latent > 0 ? latent : c_.d_model;
    add(is_gated ? names_.expert_gate : names_.expert_up, "w1", width, c_.d_ff);
    if (is_gated) add(names_.expert_up, "w3", width, c_.d_ff);
    add(names_.expert_down, "w2", c_.d_ff, width);
  }

  void add_stacked_experts(const std::string& file, const std::string& layer) {
    const std::int64_t count = c_.architecture.experts.count;
    const auto add = [&](std::string_view name, const char* own, std::int64_t rows, bool is_transposed) {
      weights_.push_back({.name = joined(file, name),
                          .shape = {count * c_.d_ff, c_.d_model},
                          .is_transposed = is_transposed,
                          .parts = {{layer + own, rows}},
                          .stacked = count});
      place(weights_.back().parts);
    };
    add(names_.expert_gate, "w1", c_.d_ff, false);
    add(names_.expert_up, "w3", c_.d_ff, false);
    add(names_.expert_down, "w2", c_.d_model, true);
  }

  void add_packed_experts(const std::string& file, const std::string& layer) {
    const Experts& experts = c_.architecture.experts;
    const bool is_transposed = names_.stored_experts != StoredExperts::halves;
    const auto add = [&](std::string_view name, std::int64_t in, std::vector<WeightPart> parts) {
      const std::int64_t out = place(parts);
      const Shape bias{experts.count, out};
      const Shape matrix = is_transposed ? Shape{experts.count, in, out} : Shape{experts.count, out, in};
      weights_.push_back(
          {joined(file, name), in == 0 ? bias : matrix, is_transposed && in > 0, std::move(parts), true});
    };
    const auto gate_up = [&](std::string_view name, std::int64_t in, const char* kind) {
      WeightPart gate{.parameter = layer + kind + "1", .rows = c_.d_ff};
      WeightPart up{.parameter = layer + kind + "3", .rows = c_.d_ff};
      if (names_.stored_experts == StoredExperts::alternating) {
        gate.places = {0, 1, 2};
        up.places = {1, 1, 2};
      }
      add(name, in, {gate, up});
    };
    if (c_.architecture.third_factor) {
      add(names_.expert_gate, c_.d_model, {{layer + "w4", c_.d_ff}, {layer + "w1", c_.d_ff}});
      add(names_.expert_up, c_.d_model, {{layer + "w3", c_.d_ff}});
    } else {
      gate_up(names_.expert_gate_up, c_.d_model, "w");
    }
    if (experts.rules.has_biases) gate_up(fmt::format("{}_bias", names_.expert_gate_up), 0, "b");
    add(names_.experts_down, c_.d_ff, {{layer + "w2", c_.d_model}});
    if (experts.rules.has_biases) add(fmt::format("{}_bias", names_.experts_down), 0, {{layer + "b2", c_.d_model}});
  }

  const TransformerConfig& c_;
  const WeightNames& names_;
  std::vector<StoredWeight> weights_;
};

}  // namespace

Shape StoredWeight::own_shape() const {
  if (matrix.rank() > 0) return matrix;
  if (stacked > 0) return {Dim(shape[0] / stacked), shape.dim(1)};
  return has_experts ? Shape(std::vector<Dim>(shape.dims().begin() + 1, shape.dims().end())) : shape;
}

std::vector<StoredWeight> stored_weights(const TransformerConfig& config) { return WeightList(config).run(); }

std::vector<ParameterDeclaration> parameters_of(const std::vector<StoredWeight>& weights, bool constants) {
  std::vector<ParameterDeclaration> parameters;
  std::map<std::string_view, std::size_t> places;
  for (const StoredWeight& weight : weights) {
    if (weight.is_constant != constants) continue;
    const Shape own = weight.own_shape();
    const bool is_matrix = own.rank() >= 2;  // of a convolution: [out, 1, tokens]
    for (const WeightPart& part : weight.parts) {
      const auto known = places.find(part.parameter);
      if (known != places.end()) {  // one expert more, or more rows
        Shape& shape = parameters[known->second].type.shape;
        std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
        dims[0] = Dim(shape[0] + (part.expert >= 0 ? 1 : part.rows));
        shape = Shape(dims);
        continue;
      }
      places.emplace(part.parameter, parameters.size());
      std::vector<Dim> dims;
      if (weight.experts() > 0) dims.emplace_back(weight.experts());
      if (part.expert >= 0) dims.push_back(Dim(1));
      dims.push_back(Dim(part.rows));
      const bool is_vector = weight.is_constant && weight.is_transposed;  // the file has it as a row
      if (is_matrix && !is_vector) dims.push_back(own.dim(weight.is_transposed ? -2 : -1));
      parameters.push_back({part.parameter, {DType::fp32, Shape(dims)}});
    }
  }
  return parameters;
}

std::vector<PublishedLayer> published_layers(const TransformerConfig& config) {
  constexpr std::string_view kWeight = ".weight";
  const auto without_weight = [&](const std::string& name) { return name.substr(0, name.size() - kWeight.size()); };
  const auto is_linear = [](const WeightPart& part) {
    return part.expert < 0 && part.parameter.find("embeddings") == std::string::npos &&
           part.parameter.find("_norm.") == std::string::npos;
  };
  std::vector<PublishedLayer> layers;
  for (const StoredWeight& weight : stored_weights(config)) {
    if (weight.shape.rank() != 2 || weight.experts() > 0 || !std::ranges::all_of(weight.parts, is_linear)) continue;
    PublishedLayer& layer = layers.emplace_back(PublishedLayer{without_weight(weight.name), {}});
    for (const WeightPart& part : weight.parts) {
      std::string module = without_weight(part.parameter);
      if (std::ranges::find(layer.modules, module) == layer.modules.end()) layer.modules.push_back(std::move(module));
    }
  }
  return layers;
}

}  // namespace ridgepoint
