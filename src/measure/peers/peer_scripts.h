// The scripts of bench/peers/pytorch, embedded by cmake/peers.cmake.
#pragma once

#include <span>
#include <string_view>

namespace ridgepoint {

struct PeerScript {
  std::string_view name;  // of the file
  std::string_view text;
};
std::span<const PeerScript> peer_scripts();

}  // namespace ridgepoint
