// The effects of number types: the types of the ops in a graph, the rounding errors of a sum in each type, and the
// errors of a model in several precisions, from the same numbers, against double precision.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/core/dtype.h"
#include "ridgepoint/core/precision.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

// With `low_norms`, norms compute in the 16-bit type instead of fp32: each step of their formula is rounded.
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

struct Accumulation {
  std::string statement;  // as in code: "fp32 += fp16"
  DType sum = DType::fp32;
  DType term = DType::fp32;
  double result = 0;
  double error = 0;  // relative to the exact sum
};

// Adds `term` `count` times in every combination of types. Every operation rounds to nearest even. Throws Error (usage)
// for a count below 1 or a term that is not finite and positive.
std::vector<Accumulation> accumulate_in_each_type(std::int64_t count = 1000, double term = 0.01,
                                                  const StopPoint& stop_point = {});

// A layer norm of rows of 1024 values without weights, in which one step is rounded to a 16-bit type after each
// operation, and the others are in double precision.
struct NormStep {
  std::string step;                              // as in code: "sum of x"; "all" rounds every step
  double spread = 0;                             // the mean of the values, and their standard deviation
  double largest = 0;                            // the largest magnitude that the step makes
  std::vector<std::pair<DType, double>> errors;  // relative L2 errors of the result; infinite if it is not finite
};

// Rounds each step alone, for values of spread 1 and 300, in fp16 and bf16.
std::vector<NormStep> round_steps_of_layer_norm();

// One row for each module, op and phase. Layers with equal types share a row; their number is written as *.
struct TypeRow {
  std::string part;      // parameter, forward, loss, backward, optimizer, gradient
  std::string module;    // layers.*.attn.q_proj, or the name of a parameter or gradient
  std::string op;        // empty for a parameter or gradient
  std::string operands;  // their types; tf32 for a matmul in tf32; empty for a parameter or gradient
  std::string result;
  std::int64_t nodes = 0;  // the number of nodes in this row
};

struct TypeTable {
  std::vector<TypeRow> rows;  // parameters, then nodes in order, then gradients
  std::int64_t casts = 0;
  std::int64_t weight_casts = 0;  // casts of parameters
};

// Views, constants and casts have no row.
TypeTable types_of(const Graph& graph);

}  // namespace ridgepoint
