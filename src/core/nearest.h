// Which known name a mistyped one was probably meant to be, for "did you mean ...?" in error messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ridgepoint {

// The candidate with the fewest insertions, deletions, substitutions and swaps of neighbours away from `word`
// (upper and lower case count as equal), where a missing end counts as one; the first of equals. Empty where none is
// near: more than a third of the longer name would have to change, and more than one character of it.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

// How an error message about an unknown `word` ends: "; did you mean 'small'?" where a name is near, otherwise
// "; available: tiny, small" where the names are few enough to read, otherwise nothing.
inline constexpr std::size_t kMostNamesListed = 16;
std::string hint(std::string_view word, std::span<const std::string_view> names);

}  // namespace ridgepoint
