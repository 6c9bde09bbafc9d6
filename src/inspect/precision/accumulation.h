// Adds the same small number many times in each number type, to show the rounding errors of sum and term.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridgepoint/dtype.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint {

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

}  // namespace ridgepoint
