#include "core/build_info.h"

#include "ridgepoint_revision.h"  // cmake/build_info.cmake generates it

namespace ridgepoint {
namespace {

#if defined(__clang__)
constexpr std::string_view kCompiler = "clang " __clang_version__ ", " RIDGEPOINT_BUILD;
#else
constexpr std::string_view kCompiler = "gcc " __VERSION__ ", " RIDGEPOINT_BUILD;
#endif

}  // namespace

std::string_view version() { return RIDGEPOINT_VERSION; }
std::string_view compiler() { return kCompiler; }
std::string_view revision() { return RIDGEPOINT_REVISION; }

}  // namespace ridgepoint
