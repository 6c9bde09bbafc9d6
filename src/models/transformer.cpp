#include "models/transformer.h"

#include "core/types/enum_names.h"
#include "models/rotary_tables.h"

namespace ridgepoint {
namespace {

constexpr double kEmbeddingDeviation = 0.02;  // the `initializer_range` of most published models

constexpr auto kNorms = enum_names<Norm>("rms_norm", "layer_norm");
constexpr auto kPlacements = enum_names<NormPlacement>("before", "after", "both");
constexpr auto kActivations = enum_names<Activation>("silu", "gelu", "gelu_tanh", "relu");
constexpr auto kPositions = enum_names<Positions>("rotary", "learned");
constexpr auto kProjectionNorms = enum_names<ProjectionNorm>("none", "per_head", "whole");
constexpr auto kScalings = enum_names<RotaryScaling>("none", "linear", "llama3");

}  // namespace

std::string_view name(Norm norm) { return kNorms[norm]; }
std::string_view name(NormPlacement placement) { return kPlacements[placement]; }
std::string_view name(Activation activation) { return kActivations[activation]; }
std::string_view name(Positions positions) { return kPositions[positions]; }
std::string_view name(ProjectionNorm norm) { return kProjectionNorms[norm]; }
std::string_view name(RotaryScaling scaling) { return kScalings[scaling]; }

Transformer::Transformer(TransformerConfig config, std::int64_t batch) : config_(std::move(config)), batch_(batch) {
  validate(config_, batch_);
}

WorkloadDescription Transformer::describe() const {
  return {.model = {.name = config_.name,
                    .parameters = parameter_count(config_),
                    .layers = config_.layers,
                    .d_model = config_.d_model,
                    .d_ff = config_.d_ff,
                    .heads = config_.heads,
                    .vocab = config_.vocab,
                    .kv_heads = config_.kv_heads(),
                    .head_size = config_.head_size(),
                    .family = config_.architecture.family},
          .batch = batch_,
          .context = config_.context,
          .attention = config_.attention};
}

TruncatedNormal Transformer::initial_distribution(const ParameterDeclaration& parameter) const {
  const bool is_bias = parameter.name.ends_with(".bias");
  const bool is_norm = parameter.type.shape.rank() == 1;
  if (is_bias || (is_norm && config_.architecture.norm_adds_one)) return {};
  if (parameter.name == "position_embeddings.weight") return {.deviation = kEmbeddingDeviation};
  if (parameter.name == "token_embeddings.weight") {
    return {.deviation = config_.architecture.family.empty() ? 1 : kEmbeddingDeviation};
  }
  return Workload::initial_distribution(parameter);
}

void Transformer::write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point) const {
  write_rotary_tables(program, config_);
  Workload::write_data(program, seed, stop_point);
}

std::int64_t Transformer::flops(const CompileOptions& options) const {
  TransformerConfig plain = config_;
  plain.attention = AttentionVariant::composite;
  return model_flops(build_transformer(plain, batch_), options);
}

}  // namespace ridgepoint
