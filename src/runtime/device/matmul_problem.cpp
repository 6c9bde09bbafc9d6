#include "runtime/device/matmul_problem.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "ops/float8_product.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

StridedMatrix read_matrix(const TensorLayout& layout) {
  const int rank = layout.shape.rank();
  StridedMatrix matrix;
  matrix.dtype = layout.dtype;
  matrix.rows = layout.shape[-2];
  matrix.columns = layout.shape[-1];
  matrix.immediate = layout.immediate;
  if (layout.immediate) return matrix;
  matrix.row_stride = layout.strides[static_cast<std::size_t>(rank - 2)];
  matrix.column_stride = layout.strides[static_cast<std::size_t>(rank - 1)];
  std::size_t kept = 0;
  for (int axis = 0; axis < rank - 2; ++axis) {
    if (layout.shape[axis] != 1) matrix.batch_strides[kept++] = layout.strides[static_cast<std::size_t>(axis)];
  }
  return matrix;
}

StridedMatrix transposed(StridedMatrix matrix) {
  std::swap(matrix.rows, matrix.columns);
  std::swap(matrix.row_stride, matrix.column_stride);
  return matrix;
}

// Whether the rows of matrix i + 1 follow those of matrix i at the same stride. A single row has no row stride.
bool rows_continue(const StridedMatrix& matrix, std::size_t axis) {
  return matrix.rows == 1 || matrix.batch_strides[axis] == matrix.rows * matrix.row_stride;
}

StridedMatrix folded_into_rows(StridedMatrix matrix, std::size_t axis, std::int64_t size) {
  if (matrix.rows == 1) matrix.row_stride = matrix.batch_strides[axis];
  matrix.rows *= size;
  matrix.batch_strides[axis] = 0;
  return matrix;
}

// Folds batch dimensions into M. It stops where BLAS would not support the strides of the folded matrix.
void fold_into_rows(MatmulProblem& problem) {
  while (!problem.batch.empty()) {
    const std::size_t axis = problem.batch.size() - 1;
    if (problem.b.batch_strides[axis] != 0) return;
    if (!rows_continue(problem.a, axis) || !rows_continue(problem.c, axis)) return;
    const StridedMatrix a = folded_into_rows(problem.a, axis, problem.batch[axis]);
    if (blas_layout(problem.a) && !blas_layout(a)) return;
    problem.a = a;
    problem.c = folded_into_rows(problem.c, axis, problem.batch[axis]);
    problem.batch.pop_back();
  }
}

}  // namespace

std::int64_t MatmulProblem::batch_count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : batch) count *= size;
  return count;
}

std::int64_t MatmulProblem::flops() const {
  return saturated_product({2, batch_count(), c.rows, c.columns, a.columns});
}

bool is_tf32(const Node& node) { return node.attributes.get_or<std::string>("compute", "") == "tf32"; }

MatmulProblem read_matmul_problem(const KernelSpec& spec) {
  if (float8_operands(spec.node.attributes)) {
    throw Error("a product in fp8 is left, which the pass quantise_products replaces; do not skip it",
                ErrorKind::unsupported);
  }
  MatmulProblem problem;
  problem.tf32 = is_tf32(spec.node);
  problem.adds = addend_operand(spec.node).has_value();
  const Shape& shape = spec.outputs[0].shape;
  for (int axis = 0; axis < shape.rank() - 2; ++axis) {
    if (shape[axis] != 1) problem.batch.push_back(shape[axis]);
  }
  problem.scaled = spec.node.op == Op::scaled_matmul;
  problem.scales_rows = problem.scaled && spec.inputs[1].shape.rank() > 0;
  problem.a = read_matrix(spec.inputs[0]);
  problem.b = problem.scaled ? transposed(read_matrix(spec.inputs[2])) : read_matrix(spec.inputs[1]);
  problem.c = read_matrix(spec.outputs[0]);
  fold_into_rows(problem);
  return problem;
}

std::optional<BlasLayout> blas_layout(const StridedMatrix& matrix) {
  if (matrix.immediate) return std::nullopt;
  const std::int64_t rows = matrix.rows;
  const std::int64_t columns = matrix.columns;
  const std::int64_t dense_row = std::max<std::int64_t>(columns, 1);
  const std::int64_t dense_column = std::max<std::int64_t>(rows, 1);
  // The stride of a dimension of size 1 is arbitrary, so BLAS gets one that it accepts.
  if (columns <= 1 || matrix.column_stride == 1) {
    if (rows <= 1) return BlasLayout{false, dense_row};
    if (matrix.row_stride >= dense_row) return BlasLayout{false, matrix.row_stride};
  }
  if (rows <= 1 || matrix.row_stride == 1) {
    if (columns <= 1) return BlasLayout{true, dense_column};
    if (matrix.column_stride >= dense_column) return BlasLayout{true, matrix.column_stride};
  }
  return std::nullopt;
}

std::int64_t batch_offset(const MatmulProblem& problem, const StridedMatrix& matrix, std::int64_t batch) {
  std::int64_t offset = 0;
  for (std::size_t axis = problem.batch.size(); axis-- > 0;) {
    offset += batch % problem.batch[axis] * matrix.batch_strides[axis];
    batch /= problem.batch[axis];
  }
  return offset;
}

}  // namespace ridgepoint
