// Divides tensors into equal parts, one for each rank, and parameters so that each rank stores one part. Collectives
// send equal parts, so if the elements do not divide into whole vectors, zeros follow the last element.
#pragma once

#include <cstdint>
#include <optional>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/parallel.h"

namespace ridgepoint {

// Kernels read a part in vectors of this many elements, which must not begin between boundaries.
inline constexpr std::int64_t kPartElements = 8;

bool is_output(const Graph& graph, Value value);

// The 16-bit type to which all of these nodes cast; empty if a node is anything else.
std::optional<DType> low_type_of(const Graph& graph, std::span<const NodeId> readers);

// Whether there is a whole vector for each rank.
constexpr bool may_divide(std::int64_t elements, std::int64_t ranks, std::int64_t vector) {
  return elements >= ranks * vector;
}
constexpr std::int64_t part_elements(std::int64_t elements, std::int64_t ranks, std::int64_t vector) {
  return (elements + ranks * vector - 1) / (ranks * vector) * vector;
}

// The elements of x in one dimension, with zeros behind them up to `elements`.
Value with_padding(Graph& graph, Value x, std::int64_t elements);
// The reverse, as a view: the first elements in this shape.
Value without_padding(Graph& graph, Value flat, const TensorType& type);

// Makes the input store so many elements in one dimension: a part of its elements, or all of them and padding. Its
// attributes keep its shape.
void store_flat(Graph& graph, Value input, std::int64_t elements);

// Makes the input store this rank's part of its elements, in whole vectors. `readers` read a gather of all parts
// instead, which stands directly after the input.
void divide_parameter(Graph& graph, Value parameter, const ParallelOptions& parallel, std::int64_t vector,
                      std::span<const NodeId> readers);

}  // namespace ridgepoint
