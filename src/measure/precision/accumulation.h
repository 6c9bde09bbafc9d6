// What a thousand small numbers add up to in each type: the type of the sum matters, then that of what is added.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridgepoint/dtype.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint {

struct Accumulation {
  std::string statement;  // as code would write it: fp32 += fp16
  DType sum = DType::fp32;
  DType term = DType::fp32;
  bool compensated = false;  // Kahan 1965: what rounding lost is carried to the next term
  double result = 0;
  double error = 0;  // relative to the exact sum
};

// `count` times `term` in every combination, the four of the published exercise first. Every operation rounds to
// nearest even. Throws Error (usage) for a count below 1 or a term that is not finite and positive.
std::vector<Accumulation> accumulate_in_each_type(std::int64_t count = 1000, double term = 0.01,
                                                  const StopPoint& stop_point = {});

}  // namespace ridgepoint
