// The messages of a machine on which CUDA cannot run.
#include "backends/cuda/libraries/driver.h"

#include <cstring>
#include <string>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/libraries/kernel_images.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "backends/cuda/libraries/shared_library.h"
#include "backends/cuda/needs.h"
#include "backends/cuda/products/choice/cublaslt.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint::cuda {
namespace {

std::string refusal_of(std::string_view file) {
  return error_of([&] { open_driver(file); }, ErrorKind::unsupported);
}

TEST(CudaDriver, none_at_all_names_the_library_and_what_to_install) {
  EXPECT_THAT(refusal_of("libridgepoint_no_such_driver.so.1"),
              AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("libridgepoint_no_such_driver.so.1"),
                    HasSubstr("install driver"), HasSubstr("--device cpu")));
}

TEST(CudaDriver, one_too_old_says_which_it_supports_and_which_is_needed) {
  EXPECT_THAT(refusal_of(built_for_tests("libfake_old_driver.so")),
              AllOf(HasSubstr("supports CUDA 12.2"), HasSubstr(toolkit_version() < 13000 ? "needs 12.3" : "needs 13.0"),
                    HasSubstr("update to driver ")));
}

TEST(CudaDriver, one_without_the_functions_it_should_have_names_the_first) {
  EXPECT_THAT(refusal_of(built_for_tests("libfake_incomplete_driver.so")),
              AllOf(HasSubstr("has no function"), HasSubstr("cuInit")));
}

TEST(CudaDriver, one_without_a_card_says_so) {
  EXPECT_THAT(refusal_of(built_for_tests("libfake_cardless_driver.so")),
              AllOf(HasSubstr("finds no GPU"), HasSubstr("nvidia-smi"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(CudaDriver, one_that_does_not_start_is_quoted) {
  EXPECT_THAT(refusal_of(built_for_tests("libfake_broken_driver.so")),
              AllOf(HasSubstr("the driver's own words"), HasSubstr("CUDA_ERROR_OF_A_TEST")));
}

TEST(CudaCard, one_of_an_unsupported_architecture_is_refused_by_name) {
  CardFacts card;
  card.ordinal = 2;
  card.name = "Tesla T4";
  card.capability = {7, 5};
  EXPECT_THAT(error_of([&] { require_supported(card); }, ErrorKind::unsupported),
              AllOf(HasSubstr("GPU 2"), HasSubstr("Tesla T4"), HasSubstr("7.5"), HasSubstr("8.0")));
  card.capability = {8, 0};
  EXPECT_NO_THROW(require_supported(card));
}

TEST(CudaLibraries, have_every_function_this_build_calls) {
  for (const char* name : {"cublasLt", "nvrtc"}) {
    if (const SharedLibrary library(toolkit_library(name)); !library.is_open()) GTEST_SKIP() << library.reason();
  }
  EXPECT_NO_THROW(cublaslt());
  EXPECT_NO_THROW(nvrtc());
}

TEST(CudaLibraries, one_that_is_missing_is_named) {
  const SharedLibrary library("libridgepoint_no_such_library.so.1");
  EXPECT_FALSE(library.is_open());
  EXPECT_THAT(library.reason(), HasSubstr("libridgepoint_no_such_library.so.1"));
}

TEST(CudaKernels, are_inside_the_program_as_fat_binaries) {
  if (const std::string why = testing::missing_kernels(); !why.empty()) GTEST_SKIP() << why;
  constexpr unsigned kFatBinaryMagic = 0xBA55ED50;
  EXPECT_GE(kernel_images().size(), 6U);
  for (const KernelImage& image : kernel_images()) {
    unsigned magic = 0;
    std::memcpy(&magic, image.data, sizeof magic);
    EXPECT_EQ(magic, kFatBinaryMagic) << image.name;
  }
}

}  // namespace
}  // namespace ridgepoint::cuda
