// Runs of evenly spaced elements of any dtype to doubles and back, and of integers to integers of 64 bits and back.
#pragma once

#include <cstdint>

#include "runtime/device.h"

namespace ridgepoint::reference {

// values[i] = element `offset + i * stride` of the operand at `base`; its immediate where it has one.
void load_run(const TensorLayout& operand, const void* base, std::int64_t offset, std::int64_t stride,
              std::int64_t count, double* values);
// Of an integer or boolean operand, exactly.
void load_run(const TensorLayout& operand, const void* base, std::int64_t offset, std::int64_t stride,
              std::int64_t count, std::int64_t* values);

// The reverse, rounded to nearest even for floating dtypes and towards zero for integers; a boolean is value != 0.
void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const double* values);
// To integers modulo 2^bits; to floating dtypes rounded once.
void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const std::int64_t* values);

}  // namespace ridgepoint::reference
