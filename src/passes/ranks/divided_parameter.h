// Tensors in equal parts of their elements, one for each rank, and parameters of which each rank stores one part. Where
// the ranks do not divide the elements into whole vectors, zeros follow the last element, in the last parts:
// collectives send equal parts.
#pragma once

#include <cstdint>
#include <optional>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/parallel.h"

namespace ridgepoint {

// Kernels read a part in vectors of this many elements, which must not begin between boundaries.
inline constexpr std::int64_t kPartElements = 8;

bool is_output(const Graph& graph, Value value);

// The 16-bit type to which all of these nodes cast; empty if one does anything else.
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

// Makes the input store so many elements in one dimension, all of its own and padding or a part of them, and keeps its
// shape in its attributes.
void store_flat(Graph& graph, Value input, std::int64_t elements);

// Makes the input store this rank's part of its elements, in whole vectors. `readers` read a gather of all parts
// instead, which stands directly after the input.
void divide_parameter(Graph& graph, Value parameter, const ParallelOptions& parallel, std::int64_t vector,
                      std::span<const NodeId> readers);

}  // namespace ridgepoint
