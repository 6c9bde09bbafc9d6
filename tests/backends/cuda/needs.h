// What tests of the CUDA back end need beside its host code, and skip without: NVRTC, and the kernels of this build.
#pragma once

#include <string>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/libraries/shared_library.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint::testing {

// Why there are no hand-written kernels; empty if there are.
inline std::string missing_kernels() { return error_of(cuda::require_kernels); }

// Why no kernel can be compiled; empty if one can.
inline std::string missing_nvrtc() {
  const cuda::SharedLibrary library(cuda::toolkit_library("nvrtc"));
  return library.is_open() ? "" : library.reason();
}

// Why the program cannot run on the GPU of fake_card.cpp; empty if it can.
inline std::string missing_for_fake_card() {
  const std::string why = missing_kernels();
  return why.empty() ? missing_nvrtc() : why;
}

template <typename Base = ::testing::Test>
struct WithNvrtc : Base {
  void SetUp() override {
    if (const std::string why = missing_nvrtc(); !why.empty()) GTEST_SKIP() << why;
  }
};

}  // namespace ridgepoint::testing
