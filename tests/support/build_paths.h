// Paths of the source tree. Only one source file contains them, so that ccache can share the other objects between
// checkouts.
#pragma once

#include <filesystem>

namespace ridgepoint {

// The root of the checkout.
std::filesystem::path source_folder();

// The C++ compiler the tests were built with: it compiles generated kernels as C++.
std::filesystem::path host_compiler();

}  // namespace ridgepoint
