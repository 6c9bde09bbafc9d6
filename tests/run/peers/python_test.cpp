#include "run/peers/python.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "ridgepoint/error.h"
#include "support/fake_python.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PythonSearch : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("RIDGEPOINT_PYTHON"); }
  void TearDown() override { ::unsetenv("RIDGEPOINT_PYTHON"); }
};

std::string refusal(const std::string& named) {
  try {
    find_python(named);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failure);
    return error.what();
  }
  return "";
}

TEST_F(PythonSearch, takes_the_one_that_is_named) {
  const FakePython fake("agrees");
  const Python python = find_python(fake.path());
  EXPECT_EQ(python.path, fake.path());
  EXPECT_EQ(python.torch_version, "9.8.7");
}

TEST_F(PythonSearch, takes_that_of_the_environment_unless_another_is_named) {
  const FakePython fake("agrees"), other("without_torch");
  ::setenv("RIDGEPOINT_PYTHON", fake.path().c_str(), 1);
  EXPECT_EQ(find_python("").path, fake.path());
  EXPECT_THAT(refusal(other.path()), HasSubstr(other.path()));
}

TEST_F(PythonSearch, says_what_it_tried_and_what_to_do) {
  const FakePython fake("without_torch");
  EXPECT_THAT(refusal(fake.path()),
              AllOf(HasSubstr("'" + fake.path() + "': ModuleNotFoundError: No module named 'torch'"),
                    HasSubstr("--python FILE"), HasSubstr("RIDGEPOINT_PYTHON")));
  EXPECT_THAT(refusal("/nowhere/python"), HasSubstr("cannot start '/nowhere/python'"));
}

}  // namespace
}  // namespace ridgepoint
