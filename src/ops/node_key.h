// Texts by which nodes that do the same are known. A model's layers have a few dozen different ones.
#pragma once

#include <string>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Its op and its attributes, exactly.
std::string operation_key(const Node& node);

// That, and of each operand the type, or the value where it is a constant: what decides on the node's results' types,
// on its cost, and on whether a device has a kernel for it.
std::string typed_key(const Graph& graph, const Node& node);

// Appends the bits of a number.
void append_bits(std::string& key, double value);

}  // namespace ridgepoint
