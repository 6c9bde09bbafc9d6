// The answers about where the time of a pass goes, from the rows of its profile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "study/answer_rows.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using testing::answer;
using testing::bench_row;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::sentence;
using Verdict = StudyClaim::Verdict;

Json kernel(std::string_view name, double ms, double share) {
  return {{"name", name}, {"calls", 3}, {"time_ms", ms}, {"share_of_kernel_time", share}};
}
Json class_of(std::string_view phase, std::string_view name, double ms, double share) {
  return {{"phase", phase}, {"class", name}, {"time_ms", ms}, {"share_of_kernel_time", share}};
}

Json profile_row(std::string_view mode, const Json& kernels, const Json& classes) {
  Json row = bench_row("small", 1e6, mode, "fp32", 100);
  row["profile"] = {
      {"time", {{"kernels_ms", 98}, {"idle_ms", 1}, {"profiled_ms", 100}, {"timed_ms", 100}}},
      {"kernels", kernels},
      {"classes", classes},
      {"attention", Json::array()},
      {"roofline", Json::array()},
      {"recoverable",
       {{{"what", "lm_head matmul"}, {"recoverable_ms", 12.0}}, {{"what", "loss"}, {"recoverable_ms", 3.0}}}}};
  return row;
}

StudyRows profiles(double matmul_in_step = 0.6, double softmax_in_forward = 0.1) {
  return {
      {StudyPart::profile,
       {profile_row("forward", {kernel("gemm", 80, 0.8), kernel("softmax", 10, softmax_in_forward)},
                    {class_of("forward", "matmul", 80, 0.8), class_of("forward", "softmax", 10, softmax_in_forward)}),
        profile_row("step", {kernel("gemm", 60, 0.6), kernel("adamw", 30, 0.3)},
                    {class_of("forward", "matmul", 20, matmul_in_step / 3),
                     class_of("backward", "matmul", 40, matmul_in_step * 2 / 3),
                     class_of("optimizer", "optimizer", 30, 0.3)})}}};
}

TEST(Answers, leave_out_classes_without_a_share) {
  StudyRows rows = profiles();
  Json& classes = rows[StudyPart::profile][0]["profile"]["classes"];
  for (int i = 0; i < 100; ++i) classes.push_back({{"phase", "forward"}, {"class", "class " + std::to_string(i)}});
  const std::vector<StudyEvidence> evidence = answer(rows, "Which kernels besides").evidence;
  EXPECT_EQ(evidence.at(0).text, "forward: softmax 10 %");
}

TEST(Answers, compare_kernels_with_the_clock) {
  StudyRows rows = profiles();
  EXPECT_EQ(sentence(rows, "Does the time of the kernels"), "The kernels add up to the timed iteration within 2.0 %.");
  EXPECT_EQ(answer(rows, "Does the time of the kernels").elsewhere.at(0).verdict, Verdict::confirmed);
  rows[StudyPart::profile][1]["profile"]["time"]["kernels_ms"] = 50;
  EXPECT_THAT(sentence(rows, "Does the time of the kernels"), HasSubstr("within 50 %, so idle time"));
  EXPECT_EQ(answer(rows, "Does the time of the kernels").elsewhere.at(0).verdict, Verdict::contradicted);
  rows[StudyPart::profile][0]["profile"]["time"]["kernels_ms"] = 160;
  EXPECT_THAT(sentence(rows, "Does the time of the kernels"), HasSubstr("within 60 %: they take longer"));
  rows[StudyPart::profile][0]["timing"]["verdict"] = "disturbed";
  EXPECT_THAT(sentence(rows, "Does the time of the kernels"), HasSubstr("in timings that were not steady"));
  EXPECT_EQ(answer(rows, "Does the time of the kernels").elsewhere.at(0).verdict, Verdict::not_comparable);
}

TEST(Answers, name_the_longest_kernel_of_both_modes) {
  StudyRows rows = profiles();
  EXPECT_THAT(sentence(rows, "Which kernel takes"), AllOf(HasSubstr("gemm (3 calls, 80 % of the kernel time)"),
                                                          HasSubstr("It is the same in a training step")));
  rows[StudyPart::profile][1]["profile"]["kernels"][1]["time_ms"] = 70;
  EXPECT_THAT(sentence(rows, "Which kernel takes"), HasSubstr("it is another one: adamw"));
}

TEST(Answers, compare_the_share_of_products_in_forward_and_step) {
  EXPECT_THAT(sentence(profiles(0.6), "What share of the time do matrix"),
              AllOf(HasSubstr("80 %"), HasSubstr("60 %"), HasSubstr("dilute")));
  EXPECT_THAT(sentence(profiles(0.9), "What share of the time do matrix"), HasSubstr("outweigh"));
  EXPECT_THAT(sentence(profiles(0.8), "What share of the time do matrix"), HasSubstr("hardly changes"));
  const auto verdicts = [](const StudyRows& rows) {
    std::vector<Verdict> found;
    for (const StudyClaim& claim : answer(rows, "What share of the time do matrix").elsewhere)
      found.push_back(claim.verdict);
    return found;
  };
  EXPECT_THAT(verdicts(profiles(0.6)), ElementsAre(Verdict::confirmed, Verdict::confirmed));
  StudyRows other = profiles(0.9);
  EXPECT_THAT(verdicts(other), ElementsAre(Verdict::confirmed, Verdict::not_comparable)) << "of a processor";
  for (Json& row : other[StudyPart::profile]) row["device"]["kind"] = "cuda";
  EXPECT_THAT(verdicts(other), ElementsAre(Verdict::confirmed, Verdict::contradicted));
  for (Json& row : other[StudyPart::profile]) row["model"]["name"] = "tiny";
  EXPECT_THAT(verdicts(other), ElementsAre(Verdict::confirmed, Verdict::not_comparable)) << "of another model";
}

TEST(Answers, name_the_largest_class_besides_products) {
  EXPECT_THAT(sentence(profiles(), "Which kernels besides"),
              AllOf(HasSubstr("forward pass softmax kernels take the most, 10 %"),
                    HasSubstr("step optimizer kernels take the most, 30 %")));
  EXPECT_THAT(sentence(profiles(0.6, 0.001), "Which kernels besides"), HasSubstr("In a forward pass none takes 0.5 %"));
}

StudyRows attention_parts(double softmax_ms) {
  StudyRows rows = profiles();
  rows[StudyPart::profile][0]["profile"]["attention"] = {
      {{"part", "scores matmul"}, {"time_ms", 10.0}, {"flops", 1e9}},
      {{"part", "softmax"}, {"time_ms", softmax_ms}, {"flops", 1e7}},
      {{"part", "values matmul"}, {"time_ms", 10.0}, {"flops", 1e9}}};
  return rows;
}

TEST(Answers, compare_softmax_with_the_products_of_attention) {
  const char* question = "Inside attention";
  EXPECT_THAT(sentence(attention_parts(5), question),
              AllOf(HasSubstr("4.00x the time of softmax, with 200x its operations"), HasSubstr("20 % of the time"),
                    HasSubstr("bound by memory")));
  EXPECT_EQ(answer(attention_parts(5), question).elsewhere.at(0).verdict, Verdict::confirmed);
  EXPECT_THAT(sentence(attention_parts(0.1), question), HasSubstr("in proportion to its operations"));
  EXPECT_EQ(answer(attention_parts(0.1), question).elsewhere.at(0).verdict, Verdict::contradicted);
  StudyRows one_kernel = profiles();
  one_kernel[StudyPart::profile][0]["profile"]["attention"] = {
      {{"part", "attention"}, {"time_ms", 10.0}, {"flops", 1e9}}};
  EXPECT_THAT(sentence(one_kernel, question), HasSubstr("no time of its own"));
}

TEST(Answers, say_what_the_optimizer_and_idle_time_take) {
  StudyRows rows = profiles();
  EXPECT_THAT(sentence(rows, "What share of a step"),
              AllOf(HasSubstr("AdamW takes 30.00 ms, 30 %"), HasSubstr("reads and writes every parameter")));
  rows[StudyPart::profile][1]["profile"]["classes"][2]["share_of_kernel_time"] = 0.02;
  EXPECT_THAT(sentence(rows, "What share of a step"), Not(HasSubstr("every parameter")));
  EXPECT_THAT(sentence(rows, "How far is a step"),
              AllOf(HasSubstr("15 % of a step's 100.0 ms could be saved, the largest part of it in lm_head matmul"),
                    HasSubstr("idle 1.0 % of the time.")));
  rows[StudyPart::profile][1]["profile"]["time"]["idle_ms"] = 30;
  EXPECT_THAT(sentence(rows, "How far is a step"),
              HasSubstr("idle 30 % of the time, so launching kernels costs time too"));
}

}  // namespace
}  // namespace ridgepoint
