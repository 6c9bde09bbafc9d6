#include "run/peers/torch_mode.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

using enum TorchMode;

constexpr auto kNames =
    enum_names<TorchMode>("eager", "compile", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs");
constexpr std::array kUsual = {eager, compile, reduce_overhead, max_autotune};
constexpr auto kPeers = enum_names<TorchMode>("torch:eager", "torch:compile", "torch:reduce-overhead",
                                              "torch:max-autotune", "torch:max-autotune-no-cudagraphs");

void add_once(TorchMode mode, std::vector<TorchMode>& modes) {
  if (std::ranges::find(modes, mode) == modes.end()) modes.push_back(mode);
}

}  // namespace

std::string_view name(TorchMode mode) { return kNames[mode]; }

std::vector<TorchMode> torch_modes_from(std::string_view text) {
  std::vector<TorchMode> modes;
  for (std::string_view rest = text;; rest.remove_prefix(rest.find(',') + 1)) {
    const std::string_view item = rest.substr(0, rest.find(','));
    if (item == "torch") {
      for (const TorchMode mode : kUsual) add_once(mode, modes);
    } else if (const std::optional<TorchMode> mode = kPeers.find(item)) {
      add_once(*mode, modes);
    } else {
      std::vector<std::string_view> known = {"torch"};
      known.insert(known.end(), kPeers.all().begin(), kPeers.all().end());
      refuse_name(item, "peer '{}' is unknown", known);
    }
    if (item.size() == rest.size()) return modes;
  }
}

}  // namespace ridgepoint
