// What this binary was built from and with; records carry it.
#pragma once

#include <string_view>

namespace ridgepoint {

std::string_view version();   // 0.1.0
std::string_view compiler();  // gcc 12.2.0, Release
std::string_view revision();  // of the source, `-dirty` when it had changes; "unknown" outside a checkout

}  // namespace ridgepoint
