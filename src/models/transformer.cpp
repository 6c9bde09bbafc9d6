#include "models/transformer.h"

#include "models/rotary_tables.h"

namespace ridgepoint {
namespace {

constexpr double kEmbeddingDeviation = 0.02;  // the `initializer_range` of most published models

}  // namespace

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
