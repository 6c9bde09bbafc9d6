#include "study/answers/rows.h"

#include "study/answer_rows.h"
#include "support/matchers.h"

namespace ridgepoint::answers {
namespace {

Json call_row(std::string_view verdict) {
  return {{"timing", {{"verdict", verdict}, {"judged", "forward_ms"}}},
          {"forward_ms", {{"median", 1.0}}},
          {"backward_ms", {{"median", 2.0}}}};
}

TEST(Figures, mark_both_times_of_a_call_by_what_concerns_the_whole_row) {
  EXPECT_EQ(ms_at(call_row("drifting"), "forward_ms.median"), "1.00 ms (~ drifting)");
  EXPECT_EQ(ms_at(call_row("drifting"), "backward_ms.median"), "2.00 ms");
  EXPECT_EQ(ms_at(call_row("throttled"), "backward_ms.median"), "2.00 ms (~ throttled)");
  EXPECT_EQ(ms_at(call_row("steady"), "forward_ms.median"), "1.00 ms");
}

TEST(Figures, have_one_parenthesis_for_an_interval_and_a_mark) {
  Json row = ridgepoint::testing::bench_row("small", 1e6, "forward", "fp32", 50);
  row["timing"]["verdict"] = "throttled";
  const Json baseline = ridgepoint::testing::bench_row("small", 1e6, "forward", "fp32", 100);
  EXPECT_EQ(words(speedup(baseline, row)), "2.00x as fast (1.95x to 2.05x, ~ throttled)");
  EXPECT_EQ(words(speedup(row, baseline)), "2.00x as long (1.95x to 2.05x, ~ throttled)");
}

StudyClaim judged(const Json& row, const std::vector<std::optional<Range>>& figures, std::string_view in_doubt = "") {
  StudyAnswer found;
  judge(found,
        {.source = "a800_80gb",
         .text = "Five and two hundred.",
         .figures = std::vector<Range>{{5, 6}, {196, 216}},
         .of = {{"model.name", "small"}, {"context", 512}}},
        row, {.figures = figures, .text = "it is so", .doubt = std::string(in_doubt)});
  return found.elsewhere.at(0);
}

TEST(Claims, are_confirmed_only_by_every_figure_on_the_same_card_model_and_size) {
  Json row = ridgepoint::testing::bench_row("small", 1e6, "forward", "fp32", 1);
  row["device"]["name"] = "A800";
  row["context"] = 512;
  EXPECT_EQ(judged(row, {exactly(5.5), exactly(200)}).verdict, StudyClaim::Verdict::confirmed);
  EXPECT_EQ(judged(row, {exactly(5.5), exactly(51)}).verdict, StudyClaim::Verdict::contradicted);
  EXPECT_EQ(judged(row, {exactly(0.9), exactly(200)}).verdict, StudyClaim::Verdict::contradicted);
  const StudyClaim noisy = judged(row, {Range{4, 7}, exactly(200)});
  EXPECT_EQ(noisy.verdict, StudyClaim::Verdict::not_comparable);
  EXPECT_THAT(noisy.reason, HasSubstr("the noise, or too few samples, hides"));
  EXPECT_EQ(judged(row, {std::nullopt, exactly(200)}).verdict, StudyClaim::Verdict::not_comparable);
  EXPECT_EQ(judged(row, {exactly(5.5), exactly(200)}, " (~ bimodal)").reason,
            "Here it is so (~ bimodal). Not compared: its timing is in doubt.");
  row["device"]["name"] = "NVIDIA H200";
  row["model"]["name"] = "xl";
  row["context"] = 256;
  const StudyClaim other = judged(row, {exactly(5.5), exactly(200)});
  EXPECT_EQ(other.verdict, StudyClaim::Verdict::not_comparable);
  EXPECT_EQ(other.reason,
            "Here it is so. Not compared: another card (NVIDIA H200, not A800); another model (xl, not small); another "
            "size (context 256, not 512).");
}

}  // namespace
}  // namespace ridgepoint::answers
