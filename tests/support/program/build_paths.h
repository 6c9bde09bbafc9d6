// Paths of the source tree. Only one source file contains them, so that ccache can share the other objects between
// checkouts.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ridgepoint {

// The root of the checkout.
std::filesystem::path source_folder();

// The C++ compiler the tests were built with: it compiles generated kernels as C++.
std::filesystem::path host_compiler();

// A file or folder that the build of the tests makes: "libfake_nvml.so", "fake_card".
std::string built_for_tests(std::string_view name);

}  // namespace ridgepoint
