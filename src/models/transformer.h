// The pre-norm Transformer language model of docs/model.md, as a graph builder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/attention.h"
#include "models/loss_scaling.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/precision.h"
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

// forward: logits only. backward: forward, loss and the gradient of every parameter. step: and AdamW.
enum class Mode : std::uint8_t { forward, backward, step };
std::string_view name(Mode mode);
Mode mode_from_name(std::string_view text);

// What a person wants to read after a run; what is not kept is freed at its last use.
struct KeepOptions {
  bool logits = false;       // output "logits" [B,S,V] (mode forward always has it)
  bool gradients = false;    // outputs "grad.NAME" (mode backward always has them)
  bool activations = false;  // outputs "activation.SCOPE", the last value of each module of forward and loss
};

// How it is trained. fp16 scales its loss.
struct TrainingOptions {
  Precision precision = Precision::fp32;
  std::vector<Op> force_low = {};    // as the autocast pass has it
  const Device* fuse_for = nullptr;  // the device whose kernels the forward graph is fused for; null: as it is written
  AdamWOptions optimizer = {};
  LossScalingOptions loss_scaling = {};
  StopPoint stop_point = {};  // called for each layer and between the stages of building
};

// Inputs: "inputs" and (past forward) "targets" int64 [B,S], the parameters by name, and in mode step
// "optimizer.step", "optimizer.first_moment.NAME", "optimizer.second_moment.NAME". Output "loss" (fp32 scalar)
// past forward; parameters and state update in place in mode step. In fp16 past forward also "optimizer.loss_scale"
// and in mode step the other states of loss scaling; the loss and the gradients that come out are without the factor.
Graph build_transformer(const TransformerConfig& config, std::int64_t batch, Mode mode, const KeepOptions& keep = {},
                        const TrainingOptions& training = {});

// The floating-point operations of one run in `mode`, as docs/model.md counts them: of the model with attention in
// plain ops, whatever it is run as. Throws Error where 64 bits do not count them.
std::int64_t transformer_flops(const TransformerConfig& config, std::int64_t batch, Mode mode);

// Makes the last floating value of every module an output "activation.SCOPE", in the order in which they are made.
void output_activations(Graph& graph);

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
// Writes the rotary tables and the first loss scale only, for weights that come from elsewhere.
void initialise_constants(Program& program, const TransformerConfig& config);
// Uniform tokens into "inputs" and "targets".
void write_random_tokens(Program& program, const TransformerConfig& config, std::uint64_t seed);

}  // namespace ridgepoint
