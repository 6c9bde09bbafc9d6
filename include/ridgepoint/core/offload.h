// What a run keeps in the memory of the host instead of the device's.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

// A set, of which the values are:
//   optimizer    the states, and what the optimizer alone reads of master weights
//   parameters   the weights of blocks, in the type in which products read them
//   activations  what the forward phase of blocks saves for backward
// automatic: the fastest of the sets with which the run fits the device; a session decides that before it compiles.
enum class Offload : std::uint8_t { none = 0, optimizer = 1, parameters = 2, activations = 4, automatic = 8 };

constexpr Offload operator|(Offload a, Offload b) {
  return static_cast<Offload>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr bool includes(Offload set, Offload one) {
  return (static_cast<std::uint8_t>(set) & static_cast<std::uint8_t>(one)) != 0;
}

inline constexpr std::array kAllOffloads = {
    Offload::none,
    Offload::optimizer,
    Offload::parameters,
    Offload::optimizer | Offload::parameters,
    Offload::activations,
    Offload::optimizer | Offload::activations,
    Offload::parameters | Offload::activations,
    Offload::optimizer | Offload::parameters | Offload::activations,
    Offload::automatic,
};

// none, auto, or names separated by commas: optimizer,activations
std::string_view name(Offload offload);
// The inverse of name(), in any order. Throws Error (usage): for an unknown name with the nearest.
Offload offload_from_name(std::string_view text);

}  // namespace ridgepoint
