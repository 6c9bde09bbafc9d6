// The command `plan` and its rows.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/program/run_program.h"

namespace ridgepoint::testing {

inline constexpr int kNothingFits = 4;

inline ProgramResult plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  return run_program(arguments);
}

inline nlohmann::json rows_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  const ProgramResult result = plan(arguments);
  EXPECT_THAT(result.exit_code, ::testing::AnyOf(0, kNothingFits)) << result.error;
  return nlohmann::json::parse(result.output);
}

}  // namespace ridgepoint::testing
