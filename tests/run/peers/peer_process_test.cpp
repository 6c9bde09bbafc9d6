#include <stdlib.h>

#include "ridgepoint/core/error.h"
#include "run/peers/peer_process.h"
#include "support/matchers.h"
#include "support/program/fake_python.h"

namespace ridgepoint {
namespace {

struct PythonSearch : ::testing::Test {
  void SetUp() override { ::unsetenv("RIDGEPOINT_PYTHON"); }
  void TearDown() override { ::unsetenv("RIDGEPOINT_PYTHON"); }
};

std::string refusal(const std::string& named) {
  return error_of([&] { find_python(named); }, ErrorKind::failure);
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

using enum TorchMode;

TEST(TorchModes, torch_alone_stands_for_the_usual_ones) {
  EXPECT_THAT(torch_modes_from("torch"), ElementsAre(eager, compile, reduce_overhead, max_autotune));
}

TEST(TorchModes, are_kept_in_the_order_given_each_once) {
  EXPECT_THAT(torch_modes_from("torch:reduce-overhead,torch:eager,torch:reduce-overhead"),
              ElementsAre(reduce_overhead, eager));
  EXPECT_THAT(torch_modes_from("torch:max-autotune-no-cudagraphs,torch"),
              ElementsAre(max_autotune_no_cudagraphs, eager, compile, reduce_overhead, max_autotune));
}

TEST(TorchModes, refuse_what_they_do_not_know) {
  for (const char* text : {"torch:eagre", "", "torch,", "tensorflow"}) {
    EXPECT_THAT(error_of([&] { torch_modes_from(text); }, ErrorKind::usage), HasSubstr("is unknown"));
  }
}

}  // namespace
}  // namespace ridgepoint
