#include "support/program/build_paths.h"

namespace ridgepoint {

std::filesystem::path source_folder() { return RIDGEPOINT_SOURCE_DIR; }

std::filesystem::path host_compiler() { return RIDGEPOINT_CXX; }

std::string built_for_tests(std::string_view name) { return std::string(RIDGEPOINT_TESTS_BUILD_DIR "/").append(name); }

}  // namespace ridgepoint
