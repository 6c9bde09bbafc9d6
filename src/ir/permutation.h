// Orders of axes, as a transpose has them: axis i of its result is axis permutation[i] of its operand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

using Permutation = std::vector<std::int64_t>;

inline const Permutation& permutation_of(const Node& transpose_node) {
  return transpose_node.attributes.get<Permutation>("permutation");
}

// Every axis where it was.
inline Permutation unmoved_axes(int rank) {
  Permutation permutation(static_cast<std::size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), 0);
  return permutation;
}

inline bool moves_nothing(const Permutation& permutation) { return std::ranges::is_sorted(permutation); }

// The last two axes of the result in each other's place. At least two axes.
inline Permutation with_last_two_swapped(Permutation permutation) {
  std::swap(permutation.end()[-1], permutation.end()[-2]);
  return permutation;
}

// The one transpose that does what `first` and then `second` do.
inline Permutation composed(const Permutation& first, Permutation second) {
  for (std::int64_t& axis : second) axis = first[static_cast<std::size_t>(axis)];
  return second;
}

}  // namespace ridgepoint
