// The messages if kernels cannot be recorded.
#include "backends/cuda/profiling/cupti.h"

#include "backends/cuda/libraries/shared_library.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint::cuda {
namespace {

template <typename Body>
std::string refusal(const Body& body) {
  return error_of(body, ErrorKind::unsupported);
}

TEST(Cupti, one_that_is_missing_is_named_with_what_to_install) {
  EXPECT_THAT(refusal([] { open_cupti("libridgepoint_no_such_cupti.so.1"); }),
              AllOf(HasSubstr("libridgepoint_no_such_cupti.so.1"),
                    HasSubstr("install the CUDA " + std::to_string(toolkit_major()) + " toolkit's CUPTI"),
                    HasSubstr("LD_LIBRARY_PATH")));
}

TEST(Cupti, one_without_the_functions_it_should_have_names_the_first) {
  EXPECT_THAT(refusal([] { open_cupti(built_for_tests("libfake_incomplete_driver.so")); }),
              AllOf(HasSubstr("has no function"), HasSubstr("cuptiGetResultString")));
}

TEST(Cupti, one_that_another_tool_has_says_whose_it_may_be) {
  Cupti table;
  table.cuptiGetResultString = [](CUptiResult, const char** text) {
    *text = "the library's own words";
    return CUPTI_SUCCESS;
  };
  EXPECT_THAT(refusal([&] { check(table, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "start recording"); }),
              AllOf(HasSubstr("could not start recording"), HasSubstr("own words"), HasSubstr("nsys")));
  EXPECT_THAT(refusal([&] { check(table, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "record kernels"); }),
              HasSubstr("administrators"));
}

TEST(Cupti, has_every_function_this_build_calls) {
  if (const SharedLibrary library(toolkit_library("cupti")); !library.is_open()) GTEST_SKIP() << library.reason();
  EXPECT_NO_THROW(cupti());
}

}  // namespace
}  // namespace ridgepoint::cuda
