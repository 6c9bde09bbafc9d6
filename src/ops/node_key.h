// Keys of nodes: equal keys mean equal computations. A model's layers have a few dozen different keys.
#pragma once

#include <string>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// The op, the attributes and the body.
std::string operation_key(const Node& node);

// operation_key() with the type of each operand, or its value where it is a constant. Nodes with equal keys have equal
// result types and costs, and a device has kernels for all of them or for none.
std::string typed_key(const Graph& graph, const Node& node);

void append_attributes(std::string& key, const Attributes& attributes);
// Appends the bit pattern of a number.
void append_bits(std::string& key, double value);

}  // namespace ridgepoint
