#include "interchange/huggingface/weights/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

std::int64_t rows_of(const std::vector<WeightPart>& parts) {
  std::int64_t rows = 0;
  for (const WeightPart& part : parts) rows += part.rows;
  return rows;
}

// The tensors of a model, under the names that its family gives them.
class WeightList {
 public:
  explicit WeightList(const TransformerConfig& config) : c_(config), names_(family_of(config).names) {}

  std::vector<StoredWeight> run() {
    const std::string model(names_.model);
    matrix(fmt::format("{}{}.weight", model, names_.embedding), c_.d_model, {{"token_embeddings.weight", c_.vocab}});
    if (c_.architecture.positions == Positions::learned)
      matrix(fmt::format("{}{}.weight", model, names_.positions), c_.d_model,
             {{"position_embeddings.weight", c_.architecture.max_context}});
    for (std::int64_t i = 0; i < c_.layers; ++i)
      add_layer(fmt::format("{}{}.{}.", model, names_.layers, i), fmt::format("layers.{}.", i));
    norm(fmt::format("{}{}", model, names_.final_norm), "ln_final");
    if (!c_.architecture.tied_head) matrix("lm_head.weight", c_.d_model, {{"lm_head.weight", c_.vocab}});
    return std::move(weights_);
  }

 private:
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
  void linear(const std::string& module, std::string_view name, std::int64_t in, const std::vector<WeightPart>& layers,
              bool has_bias) {
    const auto with = [&](const char* what) {
      std::vector<WeightPart> parts = layers;
      for (WeightPart& part : parts) part.parameter += what;
      return parts;
    };
    matrix(fmt::format("{}.{}.weight", module, name), in, with(".weight"), names_.is_transposed);
    if (has_bias) vector(fmt::format("{}.{}.bias", module, name), with(".bias"));
  }

  void norm(const std::string& name, const std::string& parameter) {
    vector(name + ".weight", {{parameter + ".weight", c_.d_model}});
    if (c_.architecture.norm == Norm::layer_norm) vector(name + ".bias", {{parameter + ".bias", c_.d_model}});
  }

  // `file` and `layer` are the prefixes of the layer in the file and in this program.
  void add_layer(const std::string& file, const std::string& layer) {
    if (names_.norms_in_between) add_norms(file, layer, 0, 2);
    add_attention(file + std::string(names_.attention), layer + "attn");
    if (names_.norms_in_between) add_norms(file, layer, 2, 4);
    if (c_.architecture.experts.count > 0) {
      add_experts(file + std::string(names_.experts), layer + "ffn");
    } else {
      add_feed_forward(file + std::string(names_.feed_forward), layer + "ffn", c_.d_ff);
    }
    if (!names_.norms_in_between) add_norms(file, layer, 0, 4);
  }

  void add_norms(const std::string& file, const std::string& layer, std::size_t begin, std::size_t end) {
    constexpr std::array kParameters = {"ln1", "ln1_after", "ln2", "ln2_after"};
    for (std::size_t i = begin; i < end; ++i) {
      if (!names_.norms[i].empty()) norm(file + std::string(names_.norms[i]), layer + kParameters[i]);
    }
  }

  void add_attention(const std::string& file, const std::string& layer) {
    const Architecture& a = c_.architecture;
    const bool is_rotated = a.positions == Positions::rotary;
    const std::int64_t keys = c_.kv_heads() * c_.head_size();
    const WeightPart q{.parameter = layer + ".q_proj", .rows = c_.heads * c_.head_size(), .is_rotated = is_rotated};
    const WeightPart k{.parameter = layer + ".k_proj", .rows = keys, .is_rotated = is_rotated};
    const WeightPart v{.parameter = layer + ".v_proj", .rows = keys};
    if (!names_.qkv.empty()) {
      linear(file, names_.qkv, c_.d_model, {q, k, v}, a.projection_bias);
    } else {
      linear(file, names_.q, c_.d_model, {q}, a.projection_bias);
      linear(file, names_.k, c_.d_model, {k}, a.projection_bias);
      linear(file, names_.v, c_.d_model, {v}, a.projection_bias);
    }
    linear(file, names_.output, q.rows, {{layer + ".output_proj", c_.d_model}}, a.output_bias);
    if (a.projection_norm == ProjectionNorm::none) return;
    const bool is_whole = a.projection_norm == ProjectionNorm::whole;
    for (const auto& [name, part] : {std::pair{"q_norm", q}, std::pair{"k_norm", k}})
      vector(fmt::format("{}.{}.weight", file, name), {{.parameter = fmt::format("{}.{}.weight", layer, name),
                                                        .rows = is_whole ? part.rows : c_.head_size(),
                                                        .is_rotated = is_rotated}});
  }

  void add_feed_forward(const std::string& file, const std::string& layer, std::int64_t width) {
    const bool has_bias = c_.architecture.feed_forward_bias;
    const WeightPart first{layer + ".w1", width};
    const WeightPart up{layer + ".w3", width};
    if (!c_.architecture.gated) {
      linear(file, names_.up, c_.d_model, {first}, has_bias);
    } else if (!names_.gate_up.empty()) {
      linear(file, names_.gate_up, c_.d_model, {first, up}, has_bias);
    } else {
      linear(file, names_.gate, c_.d_model, {first}, has_bias);
      linear(file, names_.up, c_.d_model, {up}, has_bias);
    }
    linear(file, names_.down, width, {{layer + ".w2", c_.d_model}}, has_bias);
  }

  void add_experts(const std::string& file, const std::string& layer) {
    const Experts& experts = c_.architecture.experts;
    matrix(file + ".gate.weight", c_.d_model, {{layer + ".router.weight", experts.count}});
    for (std::int64_t i = 0; i < experts.count; ++i) {
      const auto expert = [&](std::string_view name, const char* parameter, std::int64_t in, std::int64_t out) {
        matrix(fmt::format("{}.experts.{}.{}.weight", file, i, name), in,
               {{.parameter = fmt::format("{}.experts.{}", layer, parameter), .rows = out, .expert = i}});
      };
      expert(names_.expert_gate, "w1", c_.d_model, c_.d_ff);
      expert(names_.expert_up, "w3", c_.d_model, c_.d_ff);
      expert(names_.expert_down, "w2", c_.d_ff, c_.d_model);
    }
    if (experts.shared_width == 0) return;
    add_feed_forward(file + ".shared_expert", layer + ".shared_expert", experts.shared_width);
    matrix(file + ".shared_expert_gate.weight", c_.d_model, {{layer + ".shared_expert_gate.weight", 1}});
  }

  const TransformerConfig& c_;
  const WeightNames& names_;
  std::vector<StoredWeight> weights_;
};

}  // namespace

std::vector<StoredWeight> stored_weights(const TransformerConfig& config) { return WeightList(config).run(); }

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
