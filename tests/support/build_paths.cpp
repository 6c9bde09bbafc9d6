#include "support/build_paths.h"

namespace ridgepoint {

std::filesystem::path source_folder() { return RIDGEPOINT_SOURCE_DIR; }

std::filesystem::path host_compiler() { return RIDGEPOINT_CXX; }

}  // namespace ridgepoint
