// Checks, shape rules and subgraphs that several ops share.
#pragma once

#include <type_traits>

#include "ops/rule.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {

// `what` is the message, or returns it: to put one together takes longer than most checks.
template <typename What>
void require(bool condition, const What& what) {
  if (condition) return;
  if constexpr (std::is_invocable_v<const What&>) {
    throw Error(what(), ErrorKind::usage);
  } else {
    throw Error(what, ErrorKind::usage);
  }
}

// The dtype of all operands. Throws Error unless they share one floating dtype.
DType common_floating_dtype(const ShapeContext& context);

// Throws Error unless the attribute `compute` is absent, the operands' dtype, or tf32 for fp32 operands.
void require_compute(const Attributes& attributes, DType dtype);

// The type of the first operand. Throws Error unless all operands share one floating dtype.
std::vector<TensorType> infer_same(const ShapeContext& context);

// The shape of one value per row of an operand [...,D]: [...,1].
Shape row_shape(const Shape& shape);

// The reduced axes of a reduction node, normalised and sorted.
std::vector<int> reduced_axes(const Attributes& attributes, int rank);
std::vector<TensorType> infer_reduction(const ShapeContext& context);
// A reduction's result (or gradient) with its reduced dimensions as size 1 again.
Value with_kept_dims(Graph& graph, Value reduced, const TensorType& operand, const Attributes& attributes);

// A tensor of zeros, without memory.
Value zeros(Graph& graph, const TensorType& type);

// Gives `value` the labels of `shape`, whose sizes must be equal.
Value with_labels(Graph& graph, Value value, const Shape& shape);

// The attribute `shape` and its inverse.
Shape shape_attribute(const Attributes& attributes);
std::vector<std::int64_t> sizes_of(const Shape& shape);

Value swap_last_two_axes(Graph& graph, Value x);
// `x` itself where it has the dtype already.
Value cast_to(Graph& graph, Value x, DType dtype);
// The mean over the last axis, which stays with size 1.
Value row_mean(Graph& graph, Value x);

}  // namespace ridgepoint
