#include "run/peers/torch_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
    try {
      torch_modes_from(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_THAT(error.what(), HasSubstr("is unknown"));
    }
  }
}

}  // namespace
}  // namespace ridgepoint
