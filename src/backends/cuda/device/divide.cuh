// Quotient and remainder by a Divisor.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace ridgepoint::cuda {

struct Division {
  unsigned quotient;
  unsigned remainder;
};

__device__ __forceinline__ Division divide(unsigned dividend, const Divisor& divisor) {
  const unsigned quotient = (__umulhi(dividend, divisor.multiplier) + dividend) >> divisor.shift;
  return {quotient, dividend - quotient * divisor.value};
}

}  // namespace ridgepoint::cuda
