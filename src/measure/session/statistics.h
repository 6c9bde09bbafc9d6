// Quantiles; describe() and Statistics are public (ridgepoint/record.h).
#pragma once

#include <span>

#include "ridgepoint/record.h"

namespace ridgepoint {

// The value below which `share` (0..1) of the sorted samples lie, interpolated linearly between neighbours.
// NaN for no samples.
double quantile(std::span<const double> sorted, double share);

}  // namespace ridgepoint
