// What a step keeps in the memory of the host instead of the device's.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

// optimizer: the states of the optimizer, and fp32 master weights that only the optimizer reads. automatic: these where
// the run does not fit the device otherwise; a session decides that before it compiles.
enum class Offload : std::uint8_t { none, optimizer, automatic };

inline constexpr std::array kAllOffloads = {Offload::none, Offload::optimizer, Offload::automatic};

// none optimizer auto
std::string_view name(Offload offload);
// The inverse of name(). Throws Error (usage) naming the nearest.
Offload offload_from_name(std::string_view text);

}  // namespace ridgepoint
