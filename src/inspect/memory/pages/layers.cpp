#include <span>

#include "inspect/memory/pages/parts.h"

namespace ridgepoint::views {
namespace {

using enum MemoryCategory;

constexpr MemoryCategory kKept[] = {parameter, optimizer_state, data};
constexpr MemoryCategory kGradients[] = {gradient};
constexpr MemoryCategory kActivations[] = {activation};
constexpr MemoryCategory kPassing[] = {temporary, workspace};

// The colours differ for people who do not see all colours (Okabe and Ito).
constexpr MemoryLayer kLayers[] = {
    {"parameters, optimizer state, data", "█", "#0072b2", kKept},
    {"gradients", "▓", "#d55e00", kGradients},
    {"activations", "▒", "#009e73", kActivations},
    {"temporaries, workspace", "░", "#e69f00", kPassing},
};

}  // namespace

std::span<const MemoryLayer> memory_layers() { return kLayers; }

std::size_t bytes_of(const MemoryLayer& layer, const CategoryBytes& by_category) {
  std::size_t bytes = 0;
  for (const MemoryCategory category : layer.categories) bytes += by_category[static_cast<std::size_t>(category)];
  return bytes;
}

}  // namespace ridgepoint::views
