// What the tests know of the tree they were built from. Said in one source alone, so that test objects are the same in
// every checkout and ccache finds them.
#pragma once

#include <filesystem>

namespace ridgepoint {

// The root of the checkout.
std::filesystem::path source_folder();

// The C++ compiler the tests were built with: it compiles generated kernels as C++.
std::filesystem::path host_compiler();

}  // namespace ridgepoint
