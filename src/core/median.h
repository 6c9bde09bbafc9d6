#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ridgepoint {

// The middle value; of an even number of values the larger of both. There is one value at least.
template <typename T>
T upper_median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace ridgepoint
