// The pre-norm Transformer language model of docs/model.md, as a graph builder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/attention.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/program.h"
#include "ridgepoint/stop_point.h"
#include "ridgepoint/tensor.h"

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
};

// tiny 22.7m small medium large xl 2.35b 2.7b, by their number of parameters.
const std::vector<TransformerConfig>& transformer_presets();
// Throws Error (usage) naming the nearest preset, or all.
TransformerConfig transformer_preset(std::string_view name);
// Throws Error (usage): sizes not positive, heads not dividing d_model, odd head width, products that overflow.
void validate(const TransformerConfig& config, std::int64_t batch);
// Throws Error (usage) when the count overflows.
std::int64_t parameter_count(const TransformerConfig& config);

// The forward graph. Inputs: "inputs" and "targets" int64 [B,S], the parameters by name, and the rotary tables.
// Outputs: "logits" fp32 [B,S,V] and the loss, "loss", an fp32 scalar. `stop_point` is called for each layer.
Graph build_transformer(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point = {});

// The floating-point operations of one run in `mode`, as docs/model.md counts them: of the model with attention in
// plain ops, whatever it is run as. Throws Error where 64 bits do not count them.
std::int64_t transformer_flops(const TransformerConfig& config, std::int64_t batch, Mode mode);

struct ParameterDeclaration {
  std::string name;
  TensorType type;
};

// The model's parameters in the order of its layers.
std::vector<ParameterDeclaration> transformer_parameters(const TransformerConfig& config);

// Truncated normal initialisation of one parameter (docs/model.md), the same for a seed on every machine.
HostTensor initial_parameter(const std::string& name, const TensorType& type, std::uint64_t seed,
                             const StopPoint& stop_point = {});
// Writes every parameter (initial_parameter), the rotary tables and the first loss scale. Moments and the step count
// stay as they are: a new program's are zero.
void initialise(Program& program, const TransformerConfig& config, std::uint64_t seed,
                const StopPoint& stop_point = {});
// Writes the first scale into a program that scales its loss; nothing into others, and false.
bool initialise_loss_scale(Program& program, const LossScalingOptions& options = {});
// Writes the rotary tables and the first loss scale only, for weights that come from elsewhere.
void initialise_constants(Program& program, const TransformerConfig& config);
// Uniform tokens into "inputs" and "targets".
void write_random_tokens(Program& program, const TransformerConfig& config, std::uint64_t seed);

}  // namespace ridgepoint
