#include "interchange/huggingface/weights/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace ridgepoint {
namespace {

std::int64_t rows_of(const std::vector<WeightPart>& parts) {
  std::int64_t rows = 0;
  for (const WeightPart& part : parts) rows += part.rows;
  return rows;
}

// Adds tensors under a prefix of the file and one of this program.
class WeightList {
 public:
  explicit WeightList(const TransformerConfig& config) : config_(config) {}

  void matrix(std::string name, std::int64_t in, std::vector<WeightPart> parts, bool is_transposed = false) {
    const std::int64_t out = rows_of(parts);
    const Shape shape = is_transposed ? Shape{in, out} : Shape{out, in};
    weights_.push_back({std::move(name), shape, is_transposed, std::move(parts)});
  }
  void vector(std::string name, std::vector<WeightPart> parts) {
    const std::int64_t size = rows_of(parts);
    weights_.push_back({std::move(name), Shape{size}, false, std::move(parts)});
  }

  // A linear layer: the weight, and the bias if it has one.
  void linear(const std::string& name, std::int64_t in, const std::vector<WeightPart>& layers, bool has_bias,
              bool is_transposed = false) {
    const auto with = [&](const char* what) {
      std::vector<WeightPart> parts = layers;
      for (WeightPart& part : parts) part.parameter += what;
      return parts;
    };
    matrix(name + ".weight", in, with(".weight"), is_transposed);
    if (has_bias) vector(name + ".bias", with(".bias"));
  }

  void norm(const std::string& name, const std::string& parameter) {
    vector(name + ".weight", {{parameter + ".weight", config_.d_model}});
    if (config_.architecture.norm == Norm::layer_norm) vector(name + ".bias", {{parameter + ".bias", config_.d_model}});
  }

  std::vector<StoredWeight> take() { return std::move(weights_); }

 private:
  const TransformerConfig& config_;
  std::vector<StoredWeight> weights_;
};

// q, k and v of a layer.
struct Projections {
  WeightPart q, k, v;
};

Projections projections_of(const TransformerConfig& c, const std::string& layer) {
  const bool is_rotated = c.architecture.positions == Positions::rotary;
  const std::int64_t queries = c.heads * c.head_size();
  const std::int64_t keys = c.kv_heads() * c.head_size();
  return {{.parameter = layer + ".attn.q_proj", .rows = queries, .is_rotated = is_rotated},
          {.parameter = layer + ".attn.k_proj", .rows = keys, .is_rotated = is_rotated},
          {.parameter = layer + ".attn.v_proj", .rows = keys}};
}

std::vector<StoredWeight> gpt2_weights(const TransformerConfig& c) {
  WeightList list(c);
  list.matrix("transformer.wte.weight", c.d_model, {{"token_embeddings.weight", c.vocab}});
  list.matrix("transformer.wpe.weight", c.d_model, {{"position_embeddings.weight", c.architecture.max_context}});
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = fmt::format("transformer.h.{}", i);
    const std::string layer = fmt::format("layers.{}", i);
    const auto [q, k, v] = projections_of(c, layer);
    list.norm(file + ".ln_1", layer + ".ln1");
    list.linear(file + ".attn.c_attn", c.d_model, {q, k, v}, true, true);
    list.linear(file + ".attn.c_proj", q.rows, {{layer + ".attn.output_proj", c.d_model}}, true, true);
    list.norm(file + ".ln_2", layer + ".ln2");
    list.linear(file + ".mlp.c_fc", c.d_model, {{layer + ".ffn.w1", c.d_ff}}, true, true);
    list.linear(file + ".mlp.c_proj", c.d_ff, {{layer + ".ffn.w2", c.d_model}}, true, true);
  }
  list.norm("transformer.ln_f", "ln_final");
  if (!c.architecture.tied_head) list.matrix("lm_head.weight", c.d_model, {{"lm_head.weight", c.vocab}});
  return list.take();
}

// The tensors of one layer of the other families.
class DecoderLayer {
 public:
  DecoderLayer(const TransformerConfig& config, WeightList& list, std::int64_t number)
      : c_(config),
        list_(list),
        file_(fmt::format("model.layers.{}", number)),
        layer_(fmt::format("layers.{}", number)) {}

  void add() {
    attention();
    if (c_.architecture.experts.count > 0) {
      experts();
    } else {
      feed_forward(file_ + ".mlp", layer_ + ".ffn", c_.d_ff);
    }
    norms();
  }

 private:
  bool is_packed() const { return c_.architecture.family == "phi3"; }

  void attention() {
    const Architecture& a = c_.architecture;
    const auto [q, k, v] = projections_of(c_, layer_);
    const std::string file = file_ + ".self_attn";
    if (is_packed()) {
      list_.linear(file + ".qkv_proj", c_.d_model, {q, k, v}, a.projection_bias);
    } else {
      list_.linear(file + ".q_proj", c_.d_model, {q}, a.projection_bias);
      list_.linear(file + ".k_proj", c_.d_model, {k}, a.projection_bias);
      list_.linear(file + ".v_proj", c_.d_model, {v}, a.projection_bias);
    }
    list_.linear(file + ".o_proj", q.rows, {{layer_ + ".attn.output_proj", c_.d_model}}, a.output_bias);
    if (a.projection_norm == ProjectionNorm::none) return;
    const bool is_whole = a.projection_norm == ProjectionNorm::whole;
    const auto norm = [&](const char* name, std::int64_t rows, bool is_rotated) {
      list_.vector(fmt::format("{}.{}.weight", file, name),
                   {{.parameter = fmt::format("{}.attn.{}.weight", layer_, name),
                     .rows = is_whole ? rows : c_.head_size(),
                     .is_rotated = is_rotated}});
    };
    norm("q_norm", q.rows, q.is_rotated);
    norm("k_norm", k.rows, k.is_rotated);
  }

  void feed_forward(const std::string& file, const std::string& layer, std::int64_t width) {
    const bool has_bias = c_.architecture.feed_forward_bias;
    const WeightPart gate{layer + ".w1", width};
    const WeightPart up{layer + ".w3", width};
    if (is_packed()) {
      list_.linear(file + ".gate_up_proj", c_.d_model, {gate, up}, has_bias);
    } else {
      list_.linear(file + ".gate_proj", c_.d_model, {gate}, has_bias);
      list_.linear(file + ".up_proj", c_.d_model, {up}, has_bias);
    }
    list_.linear(file + ".down_proj", width, {{layer + ".w2", c_.d_model}}, has_bias);
  }

  void experts() {
    const Experts& experts = c_.architecture.experts;
    const bool is_mixtral = c_.architecture.family == "mixtral";
    const std::string file = file_ + (is_mixtral ? ".block_sparse_moe" : ".mlp");
    const std::string layer = layer_ + ".ffn";
    list_.matrix(file + ".gate.weight", c_.d_model, {{layer + ".router.weight", experts.count}});
    for (std::int64_t i = 0; i < experts.count; ++i) {
      const auto expert = [&](const char* name, const char* parameter, std::int64_t in, std::int64_t out) {
        list_.matrix(fmt::format("{}.experts.{}.{}.weight", file, i, name), in,
                     {{.parameter = fmt::format("{}.experts.{}", layer, parameter), .rows = out, .expert = i}});
      };
      expert(is_mixtral ? "w1" : "gate_proj", "w1", c_.d_model, c_.d_ff);
      expert(is_mixtral ? "w3" : "up_proj", "w3", c_.d_model, c_.d_ff);
      expert(is_mixtral ? "w2" : "down_proj", "w2", c_.d_ff, c_.d_model);
    }
    if (experts.shared_width == 0) return;
    feed_forward(file + ".shared_expert", layer + ".shared_expert", experts.shared_width);
    list_.matrix(file + ".shared_expert_gate.weight", c_.d_model, {{layer + ".shared_expert_gate.weight", 1}});
  }

  void norms() {
    const auto norm = [&](const char* file, const char* parameter) {
      list_.norm(fmt::format("{}.{}", file_, file), fmt::format("{}.{}", layer_, parameter));
    };
    switch (c_.architecture.placement) {
      case NormPlacement::before:
        norm("input_layernorm", "ln1");
        norm("post_attention_layernorm", "ln2");
        return;
      case NormPlacement::after:
        norm("post_attention_layernorm", "ln1_after");
        norm("post_feedforward_layernorm", "ln2_after");
        return;
      case NormPlacement::both:
        norm("input_layernorm", "ln1");
        norm("post_attention_layernorm", "ln1_after");
        norm("pre_feedforward_layernorm", "ln2");
        norm("post_feedforward_layernorm", "ln2_after");
        return;
    }
  }

  const TransformerConfig& c_;
  WeightList& list_;
  std::string file_, layer_;
};

}  // namespace

std::vector<StoredWeight> stored_weights(const TransformerConfig& c) {
  if (c.architecture.family == "gpt2") return gpt2_weights(c);
  WeightList list(c);
  list.matrix("model.embed_tokens.weight", c.d_model, {{"token_embeddings.weight", c.vocab}});
  for (std::int64_t i = 0; i < c.layers; ++i) DecoderLayer(c, list, i).add();
  list.norm("model.norm", "ln_final");
  if (!c.architecture.tied_head) list.matrix("lm_head.weight", c.d_model, {{"lm_head.weight", c.vocab}});
  return list.take();
}

std::vector<ParameterDeclaration> parameters_of(const std::vector<StoredWeight>& weights) {
  std::vector<ParameterDeclaration> parameters;
  std::map<std::string_view, std::size_t> of_experts;
  for (const StoredWeight& weight : weights) {
    for (const WeightPart& part : weight.parts) {
      const auto experts = of_experts.find(part.parameter);
      if (experts != of_experts.end()) {
        Shape& shape = parameters[experts->second].type.shape;
        shape = Shape{shape[0] + 1, shape[1], shape[2]};
        continue;
      }
      const std::int64_t in = weight.shape.rank() == 2 ? weight.shape[weight.is_transposed ? 0 : 1] : 0;
      Shape shape = in > 0 ? Shape{part.rows, in} : Shape{part.rows};
      if (part.expert >= 0) {
        shape = Shape{1, part.rows, in};
        of_experts.emplace(part.parameter, parameters.size());
      }
      parameters.push_back({part.parameter, {DType::fp32, shape}});
    }
  }
  return parameters;
}

std::vector<PublishedLayer> published_layers(const TransformerConfig& config) {
  constexpr std::string_view kWeight = ".weight";
  const auto without_weight = [&](const std::string& name) { return name.substr(0, name.size() - kWeight.size()); };
  const auto is_linear = [](const WeightPart& part) {
    return part.expert < 0 && part.parameter.find("embeddings") == std::string::npos;
  };
  std::vector<PublishedLayer> layers;
  for (const StoredWeight& weight : stored_weights(config)) {
    if (weight.shape.rank() != 2 || !std::ranges::all_of(weight.parts, is_linear)) continue;
    PublishedLayer& layer = layers.emplace_back(PublishedLayer{without_weight(weight.name), {}});
    for (const WeightPart& part : weight.parts) layer.modules.push_back(without_weight(part.parameter));
  }
  return layers;
}

std::int64_t file_row(std::int64_t row, std::int64_t head_size, std::int64_t rotated) {
  const std::int64_t head = row / head_size;
  const std::int64_t within = row % head_size;
  if (within >= rotated) return row;
  return head * head_size + within / 2 + (within % 2) * (rotated / 2);
}

}  // namespace ridgepoint
