// The levels of a scope, the dotted name of a module, and the blocks of a model, such as layers.3.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

enum class Layers { apart, added_up };

// A number belongs to the name before it: layers.3.attn is {layers.3, attn}, or {layers.*, attn} with added_up.
std::vector<std::string> scope_levels(std::string_view scope, Layers layers = Layers::apart);

// layers.*.attn for layers.3.attn.
std::string with_layers_added_up(std::string_view scope);

// Blocks are modules whose names end in a number. The block that a scope is in, up to its first component that is a
// number: layers.3 for layers.3.ffn.w1; empty for none.
std::string_view block_of(std::string_view scope);

// The blocks of the forward phase, in the order in which they run.
std::vector<std::string> blocks_of(const Graph& graph);

}  // namespace ridgepoint
