#include "core/build_info.h"

#include "ridgepoint_revision.h"  // cmake/build_info.cmake generates it

namespace ridgepoint {

std::string_view version() { return RIDGEPOINT_VERSION; }
#if defined(__clang__)
std::string_view compiler() { return "clang " __clang_version__ ", " RIDGEPOINT_BUILD; }
#else
std::string_view compiler() { return "gcc " __VERSION__ ", " RIDGEPOINT_BUILD; }
#endif
std::string_view revision() { return RIDGEPOINT_REVISION; }

}  // namespace ridgepoint
