// Runs of evenly spaced elements of any dtype to doubles and back.
#pragma once

#include <cstdint>

#include "runtime/device.h"

namespace ridgepoint::reference {

// values[i] = element `offset + i * stride` of the operand at `base`; its immediate where it has one.
void load_run(const TensorLayout& operand, const void* base, std::int64_t offset, std::int64_t stride,
              std::int64_t count, double* values);

// The reverse, rounded to nearest even for floating dtypes and towards zero for integers; a boolean is value != 0.
void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const double* values);

}  // namespace ridgepoint::reference
