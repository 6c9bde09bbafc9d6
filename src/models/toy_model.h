// A model small enough to follow every value through: fc1 (linear, no bias), relu, layer norm, fc2 (linear, no bias),
// mean cross-entropy. It is the model of the mixed-precision exercise of the course the workload comes from.
#pragma once

#include <cstdint>

#include "models/transformer.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/program.h"

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

// Random inputs and parameters, the same for a seed on every machine, and the first loss scale.
void initialise_toy_model(Program& program, const ToyModelConfig& config, std::uint64_t seed);

}  // namespace ridgepoint
