// Checks and small shape rules that several ops share.
#pragma once

#include <string>

#include "ops/rule.h"
#include "ridgepoint/error.h"

namespace ridgepoint {

inline void require(bool condition, const std::string& what) {
  if (!condition) throw Error(what, ErrorKind::usage);
}

// Every operand floating and of one dtype, which is returned.
DType common_floating_dtype(const ShapeContext& context);

// The attribute `compute`, where there is one, must be the operands' own dtype, or tf32 of fp32.
void require_compute(const Attributes& attributes, DType dtype);

// The one operand's own type, floating.
std::vector<TensorType> infer_same(const ShapeContext& context);

// A value a row of an operand [...,D]: [...,1].
Shape row_shape(const Shape& shape);

// The reduced axes of a reduction node, normalised and sorted.
std::vector<int> reduced_axes(const Attributes& attributes, int rank);
std::vector<TensorType> infer_reduction(const ShapeContext& context);
// A reduction's result (or gradient) with its reduced dimensions as size 1 again.
Value with_kept_dims(Graph& graph, Value reduced, const TensorType& operand, const Attributes& attributes);

// Gives `value` the labels of `shape` (sizes must already agree).
Value with_labels(Graph& graph, Value value, const Shape& shape);

}  // namespace ridgepoint
