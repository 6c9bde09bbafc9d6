// Loads and stores of runs (evenly spaced elements of any dtype), as doubles or as 64-bit integers.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace ridgepoint::reference {

// values[i] = element `offset + i * stride` of the operand at `base`, or the operand's immediate. Value is double or,
// for an integer or boolean operand, std::int64_t, which is exact.
template <typename Value>
void load_run(const TensorLayout& operand, const void* base, std::int64_t offset, std::int64_t stride,
              std::int64_t count, Value* values);

// Stores a run: rounded to nearest even for floating dtypes and towards zero for integers; a boolean is value != 0.
void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const double* values);
// The same from integers: modulo 2^bits for integer dtypes, rounded once for floating ones.
void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const std::int64_t* values);

}  // namespace ridgepoint::reference
