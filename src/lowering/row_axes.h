// Assigns the dimensions of a body's values to loops, called axes. Dimensions over which an op iterates together have
// the same axes. Most have one. A dimension that a reshape splits, or merges of several, has one for each factor; a
// dimension of size 1 has none.
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
  std::vector<std::int64_t> sizes;                // of each axis, never 1
  std::vector<std::vector<std::vector<int>>> of;  // by value id: the axes of each dimension, the outermost first
  AxisSet set_of(Value value) const;
};

// Nullopt when the body contains an op that lower_to_rows() does not support, or more than kMaxBodyAxes axes.
std::optional<BodyAxes> find_axes(const Graph& body);

}  // namespace ridgepoint
