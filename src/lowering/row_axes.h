// Which dimensions of a body's values are the same loop. Dimensions that an op walks together are one axis;
// size-1 dimensions are none.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

inline constexpr std::size_t kMaxBodyAxes = 64;
using AxisSet = std::bitset<kMaxBodyAxes>;
inline constexpr int kNoAxis = -1;

struct BodyAxes {
  std::vector<std::int64_t> sizes;   // of each axis, never 1
  std::vector<std::vector<int>> of;  // by value id: the axis of each dimension, kNoAxis where its size is 1
  AxisSet set_of(Value value) const;
};

// Nullopt when the body holds an op that loops do not express (see lower_to_rows) or more than kMaxBodyAxes axes.
std::optional<BodyAxes> find_axes(const Graph& body);

}  // namespace ridgepoint
