// Finds the known name that a mistyped word probably means, for "did you mean ...?" in error messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ridgepoint {

// The candidate with the smallest edit distance from `word`, the first among equals. Insertions, deletions,
// substitutions and swaps of neighbours count 1 each, and so does a missing end; case is ignored. Empty where the
// distance exceeds 1 and a third of the longer name.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

// The end of an error message about an unknown `word`: "; did you mean 'small'?" where nearest() finds a name,
// otherwise "; available: tiny, small" for at most kMostNamesListed names, otherwise nothing.
inline constexpr std::size_t kMostNamesListed = 28;
std::string hint(std::string_view word, std::span<const std::string_view> names);

// Throws Error (usage) with `sentence`, whose {} becomes `word`, and the hint.
[[noreturn]] void refuse_name(std::string_view word, std::string_view sentence,
                              std::span<const std::string_view> names);

}  // namespace ridgepoint
