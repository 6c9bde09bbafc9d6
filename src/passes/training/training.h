// Names that the passes of this folder share.
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint {

// The state, an fp32 scalar, by which the loss is multiplied in fp16.
inline constexpr std::string_view kLossScale = "optimizer.loss_scale";
// The state, an fp32 scalar, that counts the steps without an update, because a gradient was not finite.
inline constexpr std::string_view kSkippedSteps = "optimizer.skipped_steps";
// The output that scale_loss adds and differentiate_outputs removes.
inline constexpr std::string_view kScaledLoss = "scaled_loss";

// The module of a parameter: "layers.0.ln1" for "layers.0.ln1.weight".
inline std::string module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return std::string(parameter.substr(0, dot == std::string_view::npos ? 0 : dot));
}

}  // namespace ridgepoint
