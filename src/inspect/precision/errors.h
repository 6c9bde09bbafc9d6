// Runs a model with the same numbers in several precisions and compares the result and the gradients of each module
// with double precision.
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

// With `low_norms`, norms compute in the low type instead of fp32: each step of their formula is rounded.
struct PrecisionVariant {
  Precision precision = Precision::fp32;
  bool low_norms = false;
};
std::string name(const PrecisionVariant& variant);  // bf16, bf16 low norms

// ||x - exact|| / ||exact|| of the module's last value, and of the gradients of all its parameters together; 0 if both
// are zero, infinite if only the exact value is. Empty if the module has none.
struct PrecisionError {
  std::optional<double> forward;
  std::optional<double> gradient;
};

struct PrecisionErrorRow {
  std::string module;
  std::vector<PrecisionError> errors;  // one for each variant
};

// Rows in the order of the model, one for each module name of `depth` components (a layer's number belongs to the
// component before it). `watch` is called before each run; if it returns false, the result is empty. Throws Error, of
// kind unsupported if the device lacks a precision. `allocator`: as in ProgramOptions, for the runs on `device`.
std::vector<PrecisionErrorRow> measure_precision_errors(const Workload& workload, std::uint64_t seed,
                                                        const std::vector<PrecisionVariant>& variants,
                                                        const std::shared_ptr<Device>& device, int depth,
                                                        const std::function<bool(std::string_view)>& watch = {},
                                                        std::optional<AllocatorKind> allocator = {});

}  // namespace ridgepoint
