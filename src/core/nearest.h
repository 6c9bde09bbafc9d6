// Which known name a mistyped one was probably meant to be, for "did you mean ...?" in error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ridgepoint {

// The candidate with the fewest insertions, deletions, substitutions and swaps of neighbours away from `word`
// (upper and lower case count as equal), where a missing end counts as one; the first of equals. Empty only when there
// are no candidates.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace ridgepoint
