// The levels of a scope, the dotted name of a module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint {

enum class Layers { apart, added_up };

// A number belongs to the name before it: layers.3.attn is {layers.3, attn}, or {layers.*, attn} with added_up.
std::vector<std::string> scope_levels(std::string_view scope, Layers layers = Layers::apart);

// layers.*.attn for layers.3.attn.
std::string with_layers_added_up(std::string_view scope);

}  // namespace ridgepoint
