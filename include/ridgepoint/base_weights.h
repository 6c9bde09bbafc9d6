// How the frozen weights of linear layers are stored.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

// as_is: in the low type of the step. nf4 and int8: as bitsandbytes stores them (src/core/packed/packed_matrix.h).
enum class BaseWeights : std::uint8_t { as_is, nf4, int8 };

inline constexpr std::array kAllBaseWeights = {BaseWeights::as_is, BaseWeights::nf4, BaseWeights::int8};

// as-is nf4 int8
std::string_view name(BaseWeights weights);
// The inverse of name(). Throws Error (usage) naming the nearest.
BaseWeights base_weights_from_name(std::string_view text);

}  // namespace ridgepoint
