#include "cli/terminal/progress.h"

#include "support/matchers.h"
#include "tables/table/wrap.h"

namespace ridgepoint::cli {
namespace {

ProgressState half_way() {
  return {.row = 2,
          .rows = 12,
          .what = "small step batch 4 context 256",
          .stage = "step 4/10",
          .done = 0.5,
          .elapsed_seconds = 42};
}

TEST(ProgressLine, says_everything_on_a_wide_terminal) {
  EXPECT_EQ(progress_line(half_way(), 120, false),
            "##########.......... 3/12 small step batch 4 context 256  step 4/10  0:42 eta 0:42");
}

TEST(ProgressLine, loses_the_bar_first) {
  EXPECT_EQ(progress_line(half_way(), 70, false), "3/12 small step batch 4 context 256  step 4/10  0:42 eta 0:42");
}

TEST(ProgressLine, then_shortens_what_runs_and_then_drops_it) {
  EXPECT_EQ(progress_line(half_way(), 50, false), "3/12 small step batch 4  step 4/10  0:42 eta 0:42");
  EXPECT_EQ(progress_line(half_way(), 36, false), "3/12 step 4/10  0:42 eta 0:42");
}

TEST(ProgressLine, never_reaches_the_last_column) {
  for (std::size_t width = 0; width < 130; ++width) {
    const std::size_t most = width == 0 ? 0 : width - 1;
    EXPECT_LE(tables::display_width(progress_line(half_way(), width, true)), most) << width;
  }
}

TEST(ProgressLine, estimates_nothing_before_something_is_done) {
  ProgressState state = half_way();
  state.done = 0;
  EXPECT_THAT(progress_line(state, 120, false), Not(HasSubstr("eta")));
}

}  // namespace
}  // namespace ridgepoint::cli
