// The cosines and sines of rotary embedding (Su et al. 2021), which a Transformer's graph takes as constants.
#pragma once

#include <string_view>
#include <vector>

#include "models/transformer.h"

namespace ridgepoint {

// The width of a head that is rotated: an even number.
std::int64_t rotated_width(const TransformerConfig& config, const Rotary& rotary);

// The angle of each pair at position 1: theta^(-2i / width), stretched as `rotary` says.
std::vector<double> rotary_frequencies(const Rotary& rotary, std::int64_t width);

// Names of the tables' inputs without ".cosines" and ".sines", fp32 [S,width/2].
inline constexpr std::string_view kRotary = "rope";
inline constexpr std::string_view kWindowRotary = "rope.window";  // of layers with a window, where these differ

// Writes the tables that the program has.
void write_rotary_tables(Program& program, const TransformerConfig& config);

}  // namespace ridgepoint
