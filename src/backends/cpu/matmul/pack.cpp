#include "backends/cpu/matmul/pack.h"

#include <algorithm>

#include "core/threads/parallel.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint::cpu {
namespace {

constexpr std::int64_t kGrainElements = 1 << 12;

// The problem with size 1 in the batch dimensions along which `matrix` is broadcast.
MatmulProblem distinct_batches(const MatmulProblem& problem, const StridedMatrix& matrix) {
  MatmulProblem distinct = problem;
  for (std::size_t axis = 0; axis < distinct.batch.size(); ++axis) {
    if (matrix.batch_strides[axis] == 0) distinct.batch[axis] = std::min<std::int64_t>(distinct.batch[axis], 1);
  }
  return distinct;
}

// Calls body(first, packed row index) for every row of every distinct matrix; `first` is the row's element offset.
template <typename Body>
void for_each_row(const MatmulProblem& problem, const StridedMatrix& matrix, const Body& body) {
  const MatmulProblem distinct = distinct_batches(problem, matrix);
  const std::int64_t rows = distinct.batch_count() * matrix.rows;
  const std::int64_t grain = std::max<std::int64_t>(kGrainElements / std::max<std::int64_t>(matrix.columns, 1), 1);
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      body(batch_offset(distinct, matrix, row / matrix.rows) + row % matrix.rows * matrix.row_stride, row);
    }
  });
}

}  // namespace

StridedMatrix packed_layout(const MatmulProblem& problem, const StridedMatrix& matrix) {
  const MatmulProblem distinct = distinct_batches(problem, matrix);
  StridedMatrix packed = matrix;
  packed.dtype = DType::fp32;
  packed.immediate.reset();
  packed.row_stride = matrix.columns;
  packed.column_stride = 1;
  std::int64_t stride = matrix.rows * matrix.columns;
  for (std::size_t axis = problem.batch.size(); axis-- > 0;) {
    packed.batch_strides[axis] = matrix.batch_strides[axis] == 0 ? 0 : stride;
    stride *= distinct.batch[axis];
  }
  return packed;
}

std::int64_t packed_elements(const MatmulProblem& problem, const StridedMatrix& matrix) {
  return distinct_batches(problem, matrix).batch_count() * matrix.rows * matrix.columns;
}

void pack_matrices(const MatmulProblem& problem, const StridedMatrix& matrix, const void* source, float* packed) {
  if (matrix.immediate) {
    std::fill_n(packed, packed_elements(problem, matrix), static_cast<float>(*matrix.immediate));
    return;
  }
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(matrix.dtype));
  for_each_row(problem, matrix, [&](std::int64_t first, std::int64_t row) {
    const std::byte* element = static_cast<const std::byte*>(source) + first * element_bytes;
    float* values = packed + row * matrix.columns;
    for (std::int64_t i = 0; i < matrix.columns; ++i, element += matrix.column_stride * element_bytes) {
      values[i] = static_cast<float>(load_element(matrix.dtype, element));
    }
  });
}

void unpack_matrices(const MatmulProblem& problem, const StridedMatrix& matrix, const float* packed, void* target) {
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(matrix.dtype));
  for_each_row(problem, matrix, [&](std::int64_t first, std::int64_t row) {
    std::byte* element = static_cast<std::byte*>(target) + first * element_bytes;
    const float* values = packed + row * matrix.columns;
    for (std::int64_t i = 0; i < matrix.columns; ++i, element += matrix.column_stride * element_bytes) {
      store_element(matrix.dtype, element, values[i]);
    }
  });
}

}  // namespace ridgepoint::cpu
