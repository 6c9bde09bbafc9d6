// Runs optimizer steps of the Transformer from given weights and tokens and keeps every tensor worth comparing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/step_benchmark.h"
#include "models/transformer.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint {

struct ParameterDeclaration {
  std::string name;
  TensorType type;
};

// The model's parameters in the order of its layers.
std::vector<ParameterDeclaration> transformer_parameters(const TransformerConfig& config);

struct TrainingData {
  std::function<HostTensor(const ParameterDeclaration&)> weight;  // asked once for each parameter
  // int64 [batch, context]; random by the configuration's seed where absent.
  std::optional<HostTensor> inputs;
  std::optional<HostTensor> targets;
};

struct TrainingResult {
  // fp32 `logits`, `loss` and `grad.NAME` of the first step; `loss.K` of step K from 1 and, after the last step,
  // `param.NAME`. With no steps: forward and backward alone, no `loss.K` or `param.NAME`.
  std::map<std::string, HostTensor> tensors;
  HostTensor inputs;  // the tokens used
  HostTensor targets;
};

// Batch, model, device and seed come from `config`. Throws Error; empty when the watcher stopped it.
std::optional<TrainingResult> run_training_steps(const StepConfig& config, std::int64_t optimizer_steps,
                                                 const TrainingData& data, const StepWatcher& watch = {});

}  // namespace ridgepoint
