#include <span>

#include "views/memory/parts.h"

namespace ridgepoint::views {
namespace {

using enum MemoryCategory;

// The colours differ for people who do not see all colours (Okabe and Ito).
constexpr MemoryLayer kLayers[] = {
    {"parameters, optimizer state, data", "█", "#0072b2", {parameter, optimizer_state, data}},
    {"gradients", "▓", "#d55e00", {gradient, gradient, gradient}},
    {"activations", "▒", "#009e73", {activation, activation, activation}},
    {"temporaries, workspace", "░", "#e69f00", {temporary, workspace, workspace}},
};

}  // namespace

std::span<const MemoryLayer> memory_layers() { return kLayers; }

std::size_t bytes_of(const MemoryLayer& layer, const CategoryBytes& by_category) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < layer.categories.size(); ++i) {
    const bool is_repeated = i > 0 && layer.categories[i] == layer.categories[i - 1];
    if (!is_repeated) bytes += by_category[static_cast<std::size_t>(layer.categories[i])];
  }
  return bytes;
}

}  // namespace ridgepoint::views
