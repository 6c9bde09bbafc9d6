#include "run/session/steps/loss.h"

#include <fmt/format.h>

#include <cmath>

#include "ridgepoint/error.h"

namespace ridgepoint {

std::optional<double> loss_of(Program& program) {
  for (const Output& output : program.graph().outputs()) {
    if (output.role != OutputRole::loss) continue;
    return convert(program.read_output(output.name), DType::fp64).as<double>()[0];
  }
  return std::nullopt;
}

void require_finite_loss(double loss, std::int64_t iterations, std::string_view advice) {
  if (std::isfinite(loss)) return;
  throw Error(
      fmt::format("the loss is {} after {} iterations{}", std::isnan(loss) ? "NaN" : "infinite", iterations, advice));
}

}  // namespace ridgepoint
