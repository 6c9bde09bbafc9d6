// What the passes share that make a training graph of a forward graph.
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint {

// State, fp32 and scalar: what the loss is multiplied by in fp16.
inline constexpr std::string_view kLossScale = "optimizer.loss_scale";
// The output that scale_loss adds and differentiate_outputs takes away.
inline constexpr std::string_view kScaledLoss = "scaled_loss";

// The module of a parameter: "layers.0.ln1" of "layers.0.ln1.weight".
inline std::string module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return std::string(parameter.substr(0, dot == std::string_view::npos ? 0 : dot));
}

}  // namespace ridgepoint
