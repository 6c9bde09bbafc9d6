// The answers about the memory of a model: its peak, what it holds there, and what lowers it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "study/answer_rows.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using testing::answer;
using testing::bench_row;
using ::testing::HasSubstr;
using testing::sentence;
using Verdict = StudyClaim::Verdict;

Json moment(std::string_view name, double activation, double optimizer) {
  return {{"name", name},
          {"allocated_bytes", activation + optimizer},
          {"by_category", {{"activation", activation}, {"optimizer_state", optimizer}, {"gradient", 0}}}};
}

Json history(const Json& phases) {
  Json row = bench_row("small", 1e6, "step", "fp32", 100);
  row["memory"] = {{"phases", phases},
                   {"residual_activation", {{"bytes", 262144}, {"formula", "4 B S D"}}},
                   {"largest_allocations",
                    {{{"op", "matmul"},
                      {"module", "lm_head"},
                      {"formula", "4 B S V"},
                      {"block_bytes", 1048576},
                      {"category", "activation"},
                      {"source", "a.cpp:1"}}}}};
  return row;
}

TEST(Answers, name_the_phase_of_the_peak_and_its_parts) {
  const auto peak = [](double forward, double backward) {
    return sentence(
        {{StudyPart::memory_step, {history({moment("forward", forward, 100), moment("backward", backward, 100)})}}},
        "In which phase");
  };
  EXPECT_THAT(peak(300, 700), AllOf(HasSubstr("in the backward phase"),
                                    HasSubstr("activation 700 B (88 %), then optimizer state 100 B (12 %)")));
  EXPECT_THAT(peak(300, 50), HasSubstr("in the forward phase"));
  EXPECT_THAT(peak(10, 20), HasSubstr("The largest part is optimizer state"));
}

TEST(Answers, give_the_residual_activation_and_the_largest_allocations) {
  const StudyRows rows = {{StudyPart::memory_step, {history({moment("forward", 1, 1)})}}};
  EXPECT_EQ(sentence(rows, "How large is one activation"),
            "It has 256.0 KiB (262144 bytes): 4 B S D, for 4 x 256 x 64 elements.");
  EXPECT_EQ(sentence(rows, "What are the largest"), "The largest are 1.0 MiB by matmul in lm_head (4 B S V).");
}

TEST(Answers, take_members_of_any_type) {
  Json row = history(Json::array({moment("forward", 1, 1)}));
  row["memory"]["phases"][0]["by_category"] = {{"activation", "large"}, {"gradient", nullptr}};
  EXPECT_THAT(sentence({{StudyPart::memory_step, {row}}}, "In which phase"), HasSubstr("The largest part is nothing"));
}

TEST(Answers, need_the_name_of_a_model_for_peaks_by_context) {
  Json row = bench_row("small", 1e6, "step", "fp32", 1);
  row.erase("model");
  EXPECT_THAT(sentence({{StudyPart::memory_peaks, {row}}}, "What is the peak by context"),
              HasSubstr("This study cannot say"));
}

Json peak_row(std::string_view mode, std::string_view dtype, std::int64_t context, double peak) {
  Json row = bench_row("small", 1e6, mode, dtype, 1);
  row["context"] = context;
  row["memory_bytes"]["peak_allocated"] = peak;
  return row;
}

TEST(Answers, compare_the_growth_of_peaks_with_that_of_the_context) {
  const auto grows = [](double last) {
    return sentence(
        {{StudyPart::memory_peaks, {peak_row("step", "fp32", 128, 1000), peak_row("step", "fp32", 512, last)}}},
        "What is the peak by context");
  };
  EXPECT_THAT(grows(2000), HasSubstr("less than the tokens, as parameters and moments stay"));
  EXPECT_THAT(grows(8000), HasSubstr("more than the tokens"));
  EXPECT_THAT(grows(4000), HasSubstr("about as the tokens"));
}

TEST(Answers, say_whether_mixed_precision_lowers_peaks) {
  const auto changes = [](double forward, double step) {
    return sentence({{StudyPart::memory_peaks,
                      {peak_row("forward", "fp32", 128, 1000), peak_row("forward", "bf16", 128, forward),
                       peak_row("step", "fp32", 128, 1000), peak_row("step", "bf16", 128, step)}}},
                    "What does mixed precision");
  };
  EXPECT_THAT(changes(800, 700), HasSubstr("lowers every peak, by 20 % to 30 %"));
  EXPECT_THAT(changes(1200, 1100), HasSubstr("raises every peak, by 10 % to 20 %"));
  EXPECT_THAT(changes(1300, 700), HasSubstr("lowers some peaks, by up to 30 %, and raises others, by up to 30 %"));
}

TEST(Answers, give_the_ratio_of_rise_and_fall_and_the_verdict) {
  const auto loop = [](double rise, double fall, std::string_view verdict) {
    Json row = bench_row("small", 1e6, "training_forward", "bf16", 10);
    row["memory"] = {{"sawtooth",
                      {{"rise_ms", rise},
                       {"fall_ms", fall},
                       {"rise_events", 30},
                       {"fall_events", 10},
                       {"busy_share", 0.5},
                       {"cycles", 3},
                       {"height_bytes", 1000},
                       {"verdict", verdict}}}};
    return answer({{StudyPart::memory_forward_loop, {row}}}, "In repeated forward");
  };
  EXPECT_THAT(loop(10, 1, "host_bound").sentence,
              AllOf(HasSubstr("10 to 1 in time, 3 to 1 in events"), HasSubstr("host-bound")));
  EXPECT_EQ(loop(10, 1, "host_bound").elsewhere.at(0).verdict, Verdict::contradicted);
  EXPECT_THAT(loop(1, 1, "compute_bound").sentence, AllOf(HasSubstr("1 to 1 in time"), HasSubstr("compute-bound")));
  EXPECT_EQ(loop(1, 1, "compute_bound").elsewhere.at(0).verdict, Verdict::confirmed);
}

TEST(Answers, weigh_checkpointing) {
  const auto policies = [](double block_ms, double block_peak) {
    Json none = bench_row("small", 1e6, "step", "fp32", 100);
    Json block = bench_row("small", 1e6, "step", "fp32", block_ms);
    none["checkpoint"] = "none";
    block["checkpoint"] = "block";
    none["memory_bytes"]["peak_allocated"] = 1000;
    block["memory_bytes"]["peak_allocated"] = block_peak;
    return sentence({{StudyPart::checkpointing, {none, block}}}, "What does checkpointing save");
  };
  EXPECT_THAT(policies(130, 600), AllOf(HasSubstr("'block' has the lowest peak: 600 B instead of 1000 B (40 % less)"),
                                        HasSubstr("takes 1.30x as long.")));
  EXPECT_THAT(policies(100, 600), HasSubstr("within the noise"));
  EXPECT_THAT(policies(130, 1100), HasSubstr("No policy lowers the peak"));
}

}  // namespace
}  // namespace ridgepoint
