// The version, compiler and source revision of this binary. Records contain them.
#pragma once

#include <string_view>

namespace ridgepoint {

std::string_view version();   // 0.1.0
std::string_view compiler();  // gcc 12.2.0, Release
std::string_view revision();  // git commit, with `-dirty` after local changes; "unknown" outside a checkout

}  // namespace ridgepoint
