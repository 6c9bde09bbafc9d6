// Permutations of axes, as in a transpose: axis i of the result is axis permutation[i] of the operand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

using Permutation = std::vector<std::int64_t>;

inline const Permutation& permutation_of(const Node& transpose_node) {
  return transpose_node.attributes.get<Permutation>("permutation");
}

inline Permutation identity_permutation(int rank) {
  Permutation permutation(static_cast<std::size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), 0);
  return permutation;
}

inline bool is_identity(const Permutation& permutation) { return std::ranges::is_sorted(permutation); }

// Swaps the last two axes of the result. The rank must be at least 2.
inline Permutation with_last_two_swapped(Permutation permutation) {
  std::swap(permutation.end()[-1], permutation.end()[-2]);
  return permutation;
}

// The permutation of a transpose by `first` followed by a transpose by `second`.
inline Permutation composed(const Permutation& first, Permutation second) {
  for (std::int64_t& axis : second) axis = first[static_cast<std::size_t>(axis)];
  return second;
}

// The permutation that undoes this one.
inline Permutation inverse_of(const Permutation& permutation) {
  Permutation inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  return inverse;
}

}  // namespace ridgepoint
