// The scripts of bench/peers/pytorch, embedded by cmake/embed.cmake.
#pragma once

#include <span>

#include "core/files/embedded_file.h"

namespace ridgepoint {

std::span<const EmbeddedFile> peer_scripts();

}  // namespace ridgepoint
