// Rewrites for speed that a graph goes through where they are asked for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ridgepoint/graph.h"

namespace ridgepoint {

class Device;

// off: the graph as it was written. fuse: groups of nodes that one kernel of the device computes become that kernel.
enum class Compile : std::uint8_t { off, fuse };

inline constexpr std::array kAllCompiles = {Compile::off, Compile::fuse};

// off fuse
std::string_view name(Compile compile);
// The inverse of name(). Throws Error (usage) naming the nearest.
Compile compile_from_name(std::string_view text);

// Compile::fuse of a forward graph, for the device that is to run it: attention written in plain ops becomes the
// attention op. To be called before differentiate(), so that the derivative is that of the fused op and what it does
// not need is not kept; after, it finds little. An output may become another value, of the same name. Returns whether
// anything changed.
bool fuse(Graph& graph, const Device& device);

}  // namespace ridgepoint
