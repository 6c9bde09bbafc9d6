#include "run/machine/card_place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <optional>

namespace ridgepoint {

std::string place_of_card(const Device& device) {
  const std::optional<std::string> address = device.facts().pci_bus_id;
  if (!address) return "";
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{} {}", host.data(), *address);
}

}  // namespace ridgepoint
