// Patterns that name modules and parameters. A pattern is a run of the parts of a dotted name, whole: "ffn",
// "layers.0", "layers.*.attn" and "ln1.weight" all match parts of "layers.0....". A "*" stands for any text within a
// part.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint {

bool matches(std::string_view pattern, std::string_view name);

// For each name whether one of the patterns matches it. Throws Error (usage) for a pattern that matches none, with the
// nearest; `what` is what a name is of, such as "parameter".
std::vector<bool> matches_of(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                             std::string_view what);

}  // namespace ridgepoint
