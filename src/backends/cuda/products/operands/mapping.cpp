#include "backends/cuda/products/operands/mapping.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

bool continues(const BatchAxis& outer, const BatchAxis& inner) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (outer.strides[i] != inner.size * inner.strides[i]) return false;
  }
  return true;
}

// The transpose of a row-major matrix is the same memory in column-major order.
LtMatrix transposed_view(const StridedMatrix& matrix, const char* which) {
  const std::optional<BlasLayout> blas = blas_layout(matrix);
  if (!blas)
    throw_error(
        "the {} operand of a CUDA matmul, {} x {}, has strides {} and {}; one of them must "
        "be 1, and the other at least the length of a row or column",
        which, matrix.rows, matrix.columns, matrix.row_stride, matrix.column_stride);
  if (blas->transposed) return {matrix.rows, matrix.columns, blas->leading, 0, true};
  return {matrix.columns, matrix.rows, blas->leading, 0, false};
}

std::vector<LtProblem::Launch> launches_over(const std::vector<BatchAxis>& axes) {
  std::vector<LtProblem::Launch> launches(1);
  for (const BatchAxis& axis : axes) {
    std::vector<LtProblem::Launch> next;
    for (const LtProblem::Launch& from : launches) {
      for (std::int64_t i = 0; i < axis.size; ++i)
        next.push_back({from.a + i * axis.strides[1], from.b + i * axis.strides[0], from.c + i * axis.strides[2]});
    }
    launches = std::move(next);
  }
  return launches;
}

void require_sizes(const LtProblem& problem) {
  for (const std::int64_t size : {problem.m, problem.n, problem.k, problem.batch}) {
    if (size > INT32_MAX)
      throw_error(ErrorKind::unsupported,
                  "a matmul of {} x {} x {}, batch {}, is too large for cuBLASLt, whose sizes must be below 2^31",
                  problem.n, problem.m, problem.k, problem.batch);
  }
}

}  // namespace

std::vector<BatchAxis> merged_batch(const MatmulProblem& problem) {
  std::vector<BatchAxis> axes;
  for (std::size_t i = 0; i < problem.batch.size(); ++i) {
    const BatchAxis axis{problem.batch[i],
                         {problem.a.batch_strides[i], problem.b.batch_strides[i], problem.c.batch_strides[i]}};
    if (!axes.empty() && continues(axes.back(), axis)) {
      axes.back() = {axes.back().size * axis.size, axis.strides};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

std::int64_t LtMatrix::elements(std::int64_t batch) const {
  if (rows == 0 || columns == 0 || batch == 0) return 0;
  return (batch - 1) * batch_stride + (columns - 1) * leading + rows;
}

std::int64_t LtProblem::elements(const LtMatrix& matrix, std::int64_t Launch::*offset) const {
  std::int64_t last = 0;
  for (const Launch& at : launches) last = std::max(last, at.*offset);
  return last + matrix.elements(batch);
}

namespace {

std::string operand_name(const LtProblem& problem) {
  if (problem.tf32) return "tf32";
  const std::string second(name(problem.dtype));
  return problem.a_dtype == problem.dtype ? second : fmt::format("{} {}", name(problem.a_dtype), second);
}

}  // namespace

std::string LtProblem::key() const {
  std::string text =
      fmt::format("{}{}{}{} m{} n{} k{} {}{} ld {} {} {} batch {}", operand_name(*this),
                  result_dtype == dtype ? "" : fmt::format(" to {}", name(result_dtype)), adds ? " added" : "",
                  scales_rows ? " scaled by rows" : "", m, n, k, a.transposed ? 't' : 'n', b.transposed ? 't' : 'n',
                  a.leading, b.leading, c.leading, batch);
  for (const BatchAxis& axis : axes) text += fmt::format(" of {} by {}", axis.size, fmt::join(axis.strides, ","));
  return text + fmt::format(" aligned {} workspace {}", alignment_bytes, workspace_bytes());
}

std::size_t LtProblem::workspace_bytes() const {
  if (k < kLeastSplitK || m == 0 || n == 0) return 0;
  const auto outputs = static_cast<std::size_t>(m * n * batch);
  const std::size_t partial_bytes = static_cast<std::size_t>(kMaxSplits) * size_bytes(accumulator(dtype));
  return outputs >= kMaxWorkspaceBytes / partial_bytes ? kMaxWorkspaceBytes : outputs * partial_bytes;
}

LtProblem map_matmul(const MatmulProblem& problem) {
  LtProblem mapped;
  mapped.dtype = problem.a.dtype;
  mapped.a_dtype = problem.b.dtype;
  mapped.result_dtype = problem.c.dtype;
  mapped.adds = problem.adds;
  mapped.tf32 = problem.tf32;
  mapped.scales_rows = problem.scales_rows;
  mapped.m = problem.c.columns;
  mapped.n = problem.c.rows;
  mapped.k = problem.a.columns;
  mapped.a = transposed_view(problem.b, "right");
  mapped.b = transposed_view(problem.a, "left");
  mapped.c = transposed_view(problem.c, "result");

  mapped.axes = merged_batch(problem);
  std::vector<BatchAxis> axes = mapped.axes;
  if (!axes.empty()) {
    const auto largest = std::max_element(axes.begin(), axes.end(),
                                          [](const BatchAxis& x, const BatchAxis& y) { return x.size < y.size; });
    mapped.batch = largest->size;
    mapped.b.batch_stride = largest->strides[0];
    mapped.a.batch_stride = largest->strides[1];
    mapped.c.batch_stride = largest->strides[2];
    axes.erase(largest);
  }
  mapped.launches = launches_over(axes);
  mapped.alignment_bytes = kMatmulAlignmentBytes;
  for (const BatchAxis& axis : axes) {
    const std::int64_t operand_bytes = static_cast<std::int64_t>(size_bytes(mapped.dtype));
    const std::int64_t result_bytes = static_cast<std::int64_t>(size_bytes(mapped.result_dtype));
    for (const std::int64_t bytes :
         {axis.strides[0] * operand_bytes, axis.strides[1] * operand_bytes, axis.strides[2] * result_bytes}) {
      mapped.alignment_bytes = std::gcd(mapped.alignment_bytes, bytes);
    }
  }
  require_sizes(mapped);
  return mapped;
}

}  // namespace ridgepoint::cuda
