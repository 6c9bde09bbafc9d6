// The addresses of rows of attention's operands and results.
#pragma once

#include "backends/cuda/device/divide.cuh"
#include "backends/cuda/attention/common/parameters.h"
#include "backends/cuda/attention/common/window.h"

namespace ridgepoint::cuda {

// The first row of matrix number `matrix`.
template <class Element>
__device__ __forceinline__ const Element* first_row(const AttentionOperand& operand, const Divisor& inner_count,
                                                    int matrix) {
  const Division at = divide(static_cast<unsigned>(matrix), inner_count);
  const unsigned inner = divide(at.remainder, operand.group).quotient;
  return static_cast<const Element*>(operand.data) + (at.quotient * operand.outer + inner * operand.inner);
}
template <class Element>
__device__ __forceinline__ Element* first_row(const AttentionResult& result, const Divisor& inner_count, int matrix) {
  const Division at = divide(static_cast<unsigned>(matrix), inner_count);
  return static_cast<Element*>(result.data) + (at.quotient * result.outer + at.remainder * result.inner);
}

// The same of a result with a matrix for each group.
template <class Element>
__device__ __forceinline__ Element* first_row_of_group(const AttentionResult& result, const Divisor& inner_count,
                                                       int matrix) {
  const Division at = divide(static_cast<unsigned>(matrix), inner_count);
  const unsigned inner = divide(at.remainder, result.group).quotient;
  return static_cast<Element*>(result.data) + (at.quotient * result.outer + inner * result.inner);
}

// The distance of rows; one wide multiplication for 32-bit factors.
__device__ __forceinline__ long long rows_apart(int rows, int stride) { return static_cast<long long>(rows) * stride; }

}  // namespace ridgepoint::cuda
