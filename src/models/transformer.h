// The pre-norm Transformer language model of docs/model.md, as a graph builder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture.h"
#include "models/attention.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/stop_point.h"
#include "ridgepoint/workload.h"

namespace ridgepoint {

struct TransformerConfig {
  std::string name = "custom";
  std::int64_t vocab = 10000;
  std::int64_t context = 256;
  std::int64_t d_model = 0;
  std::int64_t d_ff = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  AttentionVariant attention = AttentionVariant::composite;
  Architecture architecture = {};

  std::int64_t head_size() const { return architecture.head_size > 0 ? architecture.head_size : d_model / heads; }
  std::int64_t kv_heads() const { return architecture.kv_heads > 0 ? architecture.kv_heads : heads; }
};

// tiny, 22.7m, small, medium, large, xl, 2.35b and 2.7b, in this order.
const std::vector<TransformerConfig>& transformer_presets();
// Throws Error (usage) with the most similar name, or all names.
TransformerConfig transformer_preset(std::string_view name);
// Throws Error (usage) for a size that is not positive, heads that do not divide d_model, an odd head size, and
// products that overflow.
void validate(const TransformerConfig& config, std::int64_t batch);
// Throws Error (usage) when the count overflows.
std::int64_t parameter_count(const TransformerConfig& config);

// The forward graph. Inputs: "inputs" and "targets" int64 [B,S], the parameters by name, and the rotary tables.
// Outputs: "logits" fp32 [B,S,V] and the loss, "loss", an fp32 scalar. `stop_point` is called for each layer.
Graph build_transformer(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point = {});

// The language model as a workload; tokens and targets are uniformly distributed.
class Transformer final : public Workload {
 public:
  // Throws Error (usage) as validate() does.
  Transformer(TransformerConfig config, std::int64_t batch);

  const TransformerConfig& config() const { return config_; }
  WorkloadDescription describe() const override;
  Graph build(const StopPoint& stop_point = {}) const override {
    return build_transformer(config_, batch_, stop_point);
  }
  // The embedding has standard deviation 1, those of the families of docs/models.md 0.02; biases are 0, and so are the
  // weights of norms that add one to them. Other weights as in Workload.
  TruncatedNormal initial_distribution(const ParameterDeclaration& parameter) const override;
  // Also writes the rotary tables.
  void write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point = {}) const override;
  std::int64_t units() const override { return batch_ * config_.context; }
  std::string_view unit() const override { return "tokens"; }
  // Counts the model with the attention variant `composite`, so that all variants have the same count.
  using Workload::flops;
  std::int64_t flops(const CompileOptions& options) const override;

 private:
  TransformerConfig config_;
  std::int64_t batch_;
};

}  // namespace ridgepoint
