// The loss after a run: a loss that is NaN or infinite makes the times of the run worthless.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ridgepoint/program.h"

namespace ridgepoint {

// The loss of the last iteration. Empty if the graph has none.
std::optional<double> loss_of(Program& program);

// Throws Error, which ends in `advice`, if the loss is NaN or infinite.
void require_finite_loss(double loss, std::int64_t iterations, std::string_view advice);

}  // namespace ridgepoint
