// Keys of nodes: equal keys mean equal computations. A model's layers have a few dozen different keys.
#pragma once

#include <string>
#include <type_traits>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// The op, the attributes and the body.
std::string operation_key(const Node& node);

// operation_key() with the type of each operand, or its value where it is a constant. Nodes with equal keys have equal
// result types and costs, and a device has kernels for all of them or for none.
std::string typed_key(const Graph& graph, const Node& node);

void append_attributes(std::string& key, const Attributes& attributes);
// Appends the bytes of a number.
template <typename Number>
requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
void append_bits(std::string& key, Number value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); }
// Appends the dtype and the sizes; the second, also the labels of the dimensions.
void append_type(std::string& key, const TensorType& type);
void append_labelled_type(std::string& key, const TensorType& type);

}  // namespace ridgepoint
