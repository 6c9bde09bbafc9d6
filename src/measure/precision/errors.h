// Where precision is lost: the same model with the same numbers in several precisions, each module's result and
// gradient held against double precision.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/precision.h"
#include "ridgepoint/program.h"
#include "ridgepoint/workload.h"

namespace ridgepoint {

// A way to compute. With `low_norms` the norms leave fp32: each step of their formula is rounded to the low type.
struct PrecisionVariant {
  Precision precision = Precision::fp32;
  bool low_norms = false;
};
std::string name(const PrecisionVariant& variant);  // bf16, bf16 low norms

// ||x - exact|| / ||exact||, 0 where x is exact and infinite where only the exact value is zero: of the module's last
// value, and of the gradients of its parameters taken together. Empty where it has none.
struct PrecisionError {
  std::optional<double> forward;
  std::optional<double> gradient;
};

struct PrecisionErrorRow {
  std::string module;
  std::vector<PrecisionError> errors;  // one a variant
};

// Rows in the order of the model, one for each module name cut to `depth` components (a layer's number belongs to the
// component before it). Called before each program runs, `watch` stops everything by returning false: then no rows
// come. Throws Error, (unsupported) for a precision the device lacks.
std::vector<PrecisionErrorRow> measure_precision_errors(const Workload& workload, std::uint64_t seed,
                                                        const std::vector<PrecisionVariant>& variants,
                                                        const std::shared_ptr<Device>& device, int depth,
                                                        const std::function<bool(std::string_view)>& watch = {});

}  // namespace ridgepoint
