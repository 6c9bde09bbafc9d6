// The optimizers of a training step, by the names of torch.optim.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ridgepoint/ops.h"

namespace ridgepoint {

// adamw: first and second moments, decoupled weight decay. adamw_8bit: the same with moments of 8 bits and a scale for
// each block of 256. sgd: with or without a momentum buffer.
enum class Optimizer : std::uint8_t { adamw, adamw_8bit, sgd };
inline constexpr std::array kAllOptimizers = {Optimizer::adamw, Optimizer::adamw_8bit, Optimizer::sgd};
// adamw adamw-8bit sgd
std::string_view name(Optimizer optimizer);
// The inverse of name(). Throws Error (usage) naming the nearest.
Optimizer optimizer_from_name(std::string_view text);

struct OptimizerOptions {
  Optimizer kind = Optimizer::adamw;
  AdamWOptions adamw = {};
  SgdOptions sgd = {};

  double weight_decay() const { return kind == Optimizer::sgd ? sgd.weight_decay : adamw.weight_decay; }
};

}  // namespace ridgepoint
