// Sums of 16-bit floating types, as MPI calls them: sum[i] += operand[i], rounded to nearest even.
#pragma once

#include <cstddef>

namespace ridgepoint {

void add_bf16(const void* operand, void* sum, std::size_t count);
void add_fp16(const void* operand, void* sum, std::size_t count);

}  // namespace ridgepoint
