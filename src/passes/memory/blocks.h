// The blocks of a model: modules whose names end in a number, such as layers.3.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// The block that a scope is in, up to its first component that is a number: layers.3 for layers.3.ffn.w1; empty for
// none.
std::string_view block_of(std::string_view scope);

// The blocks of the forward phase, in the order in which they run.
std::vector<std::string> blocks_of(const Graph& graph);

}  // namespace ridgepoint
