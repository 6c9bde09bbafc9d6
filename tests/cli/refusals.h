// What every command does where it cannot run.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/program/run_program.h"

namespace ridgepoint {

// The program prints the message, and no result.
inline ProgramResult expect_refused(const std::vector<std::string>& arguments, int exit_code,
                                    const std::string& message) {
  ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << message;
  EXPECT_THAT(result.error, ::testing::HasSubstr(message));
  EXPECT_EQ(result.output, "");
  return result;
}

// The message is one line.
inline void expect_usage_error(const std::vector<std::string>& arguments, const std::string& message) {
  const ProgramResult result = expect_refused(arguments, 2, message);
  EXPECT_THAT(result.error, ::testing::StartsWith("ridgepoint: "));
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
}

}  // namespace ridgepoint
