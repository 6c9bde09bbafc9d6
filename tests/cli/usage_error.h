// What every command does with arguments that it does not take.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/run_program.h"

namespace ridgepoint {

// The program prints one line with the message, and nothing else.
inline void expect_usage_error(const std::vector<std::string>& arguments, const std::string& message) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.exit_code, 2) << message;
  EXPECT_THAT(result.error, ::testing::AllOf(::testing::StartsWith("ridgepoint: "), ::testing::HasSubstr(message)));
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
  EXPECT_THAT(result.output, ::testing::IsEmpty());
}

}  // namespace ridgepoint
