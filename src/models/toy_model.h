// A model small enough to follow every value: fc1 (linear, no bias), relu, layer norm, fc2 (linear, no bias), mean
// cross-entropy. It comes from the mixed-precision exercise of the course on which the workload is based.
#pragma once

#include <cstdint>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/models/workload.h"

namespace ridgepoint {

struct ToyModelConfig {
  std::int64_t batch = 16;
  std::int64_t inputs = 20;
  std::int64_t hidden = 10;
  std::int64_t outputs = 5;
};

// The forward graph. Inputs: "x" fp32 [batch, inputs], "targets" int64 [batch], and the parameters "fc1.weight",
// "ln.weight", "ln.bias", "fc2.weight". Outputs: "logits" and the loss, "loss".
Graph build_toy_model(const ToyModelConfig& config);

class ToyModel final : public Workload {
 public:
  explicit ToyModel(ToyModelConfig config = {}) : config_(config) {}

  WorkloadDescription describe() const override;
  Graph build(const StopPoint& = {}) const override { return build_toy_model(config_); }
  // "ln.bias" is 0; weights as in Workload.
  TruncatedNormal initial_distribution(const ParameterDeclaration& parameter) const override;
  // x has the distribution of a weight of its shape; the target of row i is i modulo `outputs`.
  void write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point = {}) const override;
  std::int64_t units() const override { return config_.batch; }
  std::string_view unit() const override { return "rows"; }

 private:
  ToyModelConfig config_;
};

}  // namespace ridgepoint
