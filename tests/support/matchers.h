// GoogleTest and GoogleMock, and the matchers that many tests use by their names.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "ridgepoint/core/error.h"

namespace ridgepoint {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// The message of the Error that an action throws, and "" where it throws none. Expects the kind, where one is given.
template <typename Action>
std::string error_of(const Action& action, std::optional<ErrorKind> kind = std::nullopt) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind.value_or(error.kind())) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace ridgepoint
