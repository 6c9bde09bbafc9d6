// The tables that the integer inputs of a graph index.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// For each integer input, by name, the number of rows of the smallest table that it indexes, directly or through views;
// INT64_MAX if it indexes none.
std::map<std::string, std::int64_t> index_bounds(const Graph& graph);

}  // namespace ridgepoint
