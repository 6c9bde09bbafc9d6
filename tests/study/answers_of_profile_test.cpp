// The answers about where the time of a pass goes, from the rows of its profile.

#include <string>
#include <string_view>
#include <vector>

#include "study/answer_rows.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::answer;
using testing::bench_row;
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
  row["optimizer"] = "adamw";
  row["device"]["name"] = "NVIDIA A100 80GB PCIe";
  row["profile"] = {
      {"time", {{"kernels_ms", 98}, {"idle_ms", 1}, {"profiled_ms", 100}, {"timed_ms", 100}}},
      {"kernels", kernels},
      {"classes", classes},
      {"attention", Json::array()},
      {"copy_bytes_per_second", 1e12},
      {"roofline",
       {{{"class", "optimizer"}, {"bytes", 1048576}, {"share_of_ceiling", 0.9}, {"bound_by", "copy bandwidth"}}}},
      {"idle", {{{"cause", "host late"}, {"time_ms", 0.2}}, {{"cause", "dependency"}, {"time_ms", 0.8}}}},
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
  EXPECT_EQ(evidence.at(0).text, "small, 4 x 256, fp32, forward: softmax 10 %");
}

TEST(Answers, compare_kernels_with_the_clock) {
  const char* question = "Does the time of the kernels";
  StudyRows rows = profiles();
  EXPECT_EQ(
      sentence(rows, question),
      "The kernels of a forward pass differ by -2.0 % from the iteration timed without the profiler; with the idle "
      "time between them it is +0.0 %. The kernels of a training step differ by -2.0 % from the iteration timed "
      "without the profiler; with the idle time between them it is +0.0 %.");
  EXPECT_EQ(answer(rows, question).elsewhere.at(0).verdict, Verdict::confirmed);
  // The claim is of a forward pass.
  rows[StudyPart::profile][1]["profile"]["time"]["kernels_ms"] = 50;
  EXPECT_EQ(answer(rows, question).elsewhere.at(0).verdict, Verdict::confirmed);
  rows[StudyPart::profile][0]["profile"]["time"]["kernels_ms"] = 160;
  EXPECT_THAT(sentence(rows, question), HasSubstr("forward pass differ by +60.0 %"));
  EXPECT_EQ(answer(rows, question).elsewhere.at(0).verdict, Verdict::contradicted);
  rows[StudyPart::profile][0]["timing"]["verdict"] = "disturbed";
  EXPECT_THAT(sentence(rows, question), HasSubstr("without the profiler (~ disturbed)"));
  EXPECT_EQ(answer(rows, question).elsewhere.at(0).verdict, Verdict::not_comparable);
}

TEST(Answers, name_the_longest_kernel_of_both_modes) {
  StudyRows rows = profiles();
  EXPECT_THAT(sentence(rows, "Which kernel takes"),
              AllOf(HasSubstr("gemm (3 calls, 80 % of the kernel time)"),
                    HasSubstr("The longest kernel of a training step is the same")));
  rows[StudyPart::profile][1]["profile"]["kernels"][1]["time_ms"] = 70;
  EXPECT_THAT(sentence(rows, "Which kernel takes"),
              HasSubstr("The longest kernel of a training step is another one: adamw"));
  rows[StudyPart::profile][1]["profile"]["kernels"][0]["calls"] = 9;
  EXPECT_EQ(answer(rows, "Which kernel takes").evidence.at(0).text,
            "small, 4 x 256, fp32: gemm (3 calls in the forward pass, 9 in the step)");
}

TEST(Answers, give_the_share_of_products_by_phase) {
  EXPECT_THAT(
      sentence(profiles(0.6), "What share of the time do matrix"),
      AllOf(HasSubstr("80 %"), HasSubstr("60 %"),
            HasSubstr("Within the step they are 100 % of forward (20 % of the step), 100 % of backward (40 % of "
                      "the step), 0.0 % of optimizer (30 % of the step)")));
  const auto verdicts = [](const StudyRows& rows) {
    std::vector<Verdict> found;
    for (const StudyClaim& claim : answer(rows, "What share of the time do matrix").elsewhere)
      found.push_back(claim.verdict);
    return found;
  };
  EXPECT_THAT(verdicts(profiles(0.6)), ElementsAre(Verdict::confirmed, Verdict::confirmed));
  StudyRows other = profiles(0.76);
  EXPECT_THAT(verdicts(other), ElementsAre(Verdict::confirmed, Verdict::contradicted));
  for (Json& row : other[StudyPart::profile]) row["model"]["name"] = "tiny";
  EXPECT_THAT(verdicts(other), ElementsAre(Verdict::not_comparable, Verdict::not_comparable)) << "of another model";
  other = profiles(0.6);
  for (Json& row : other[StudyPart::profile]) row["device"]["name"] = "NVIDIA H200";
  EXPECT_THAT(verdicts(other), ElementsAre(Verdict::not_comparable, Verdict::not_comparable)) << "of another card";
}

TEST(Answers, name_the_largest_class_besides_products) {
  EXPECT_THAT(sentence(profiles(), "Which kernels besides"),
              AllOf(HasSubstr("forward pass softmax kernels take the most, 10 %"),
                    HasSubstr("step optimizer kernels take the most, 30 %")));
  EXPECT_THAT(sentence(profiles(0.6, 0.001), "Which kernels besides"), HasSubstr("In a forward pass none takes 0.5 %"));
}

StudyRows attention_parts(double softmax_ms, double softmax_bytes = 1e9, double softmax_flops = 1e7) {
  StudyRows rows = profiles();
  rows[StudyPart::profile][0]["profile"]["attention"] = {
      {{"part", "scores matmul"}, {"time_ms", 10.0}, {"flops", 1e9}},
      {{"part", "softmax"}, {"time_ms", softmax_ms}, {"flops", softmax_flops}, {"bytes", softmax_bytes}},
      {{"part", "values matmul"}, {"time_ms", 10.0}, {"flops", 1e9}}};
  return rows;
}

TEST(Answers, compare_softmax_with_the_products_of_attention) {
  const char* question = "Inside attention";
  EXPECT_EQ(sentence(attention_parts(5), question),
            "The two products take 4.00x the time of softmax, with 200x its operations; softmax is 20 % of the time of "
            "attention. Softmax moves 953.7 MiB at 20 % of the copy rate of main memory.");
  // Once any rate above the copy rate, which itself varies by a few percent, was one of the cache.
  EXPECT_THAT(sentence(attention_parts(0.95), question), HasSubstr("at 1.05x the copy rate of main memory."));
  // The answer once called a softmax that reads from the cache bound by memory.
  EXPECT_THAT(sentence(attention_parts(0.5), question),
              AllOf(HasSubstr("at 2.00x the copy rate of main memory, so a part of them comes from the cache"),
                    Not(HasSubstr("bound"))));
  EXPECT_EQ(answer(attention_parts(3.4), question).elsewhere.at(0).verdict, Verdict::confirmed);
  // 0.91 times the time and 51 times the operations once confirmed 5.9 and 206.
  EXPECT_EQ(answer(attention_parts(22, 1e9, 3.9e7), question).elsewhere.at(0).verdict, Verdict::contradicted);
  EXPECT_EQ(answer(attention_parts(3.4, 1e9, 3.9e7), question).elsewhere.at(0).verdict, Verdict::contradicted);
  StudyRows one_kernel = profiles();
  one_kernel[StudyPart::profile][0]["profile"]["attention"] = {
      {{"part", "attention"}, {"time_ms", 10.0}, {"flops", 1e9}}};
  EXPECT_THAT(sentence(one_kernel, question), HasSubstr("no time of its own"));
}

TEST(Answers, say_what_the_optimizer_and_idle_time_take) {
  StudyRows rows = profiles();
  EXPECT_EQ(sentence(rows, "What share of a step"),
            "The optimizer (adamw) takes 30.00 ms, 30 % of the kernel time of a step of small, 4 x 256, fp32. It moves "
            "1.00 MiB, at 90 % of its ceiling, bound by copy bandwidth.");
  rows[StudyPart::profile][1]["optimizer"] = "sgd";
  Json& roofline = rows[StudyPart::profile][1]["profile"]["roofline"][0];
  roofline["bound_by"] = "cache";
  roofline["share_of_ceiling"] = 1.5;
  EXPECT_THAT(
      sentence(rows, "What share of a step"),
      AllOf(HasSubstr("(sgd)"), HasSubstr("at 1.50x the copy rate of main memory, so in part from the cache.")));
  roofline["share_of_ceiling"] = 1.02;
  EXPECT_THAT(sentence(rows, "What share of a step"), HasSubstr("at 1.02x the copy rate of main memory."));
  EXPECT_THAT(sentence(rows, "How far is a step"),
              AllOf(HasSubstr("15 % of a step's 100.0 ms could be saved, the largest part in lm_head matmul (12.00 ms, "
                              "80 % of it)."),
                    HasSubstr("idle 1.0 % of the time, most of it by the cause 'dependency' (0.8000 ms).")));
  rows[StudyPart::profile][1]["profile"]["time"]["idle_ms"] = 30;
  rows[StudyPart::profile][1]["profile"]["idle"][0]["time_ms"] = 29;
  EXPECT_THAT(sentence(rows, "How far is a step"),
              HasSubstr("idle 30 % of the time, most of it by the cause 'host late'"));
}

// Profiles of small and large at 128 and 512 tokens, the large and long ones first.
StudyRows four_profiles() {
  StudyRows rows;
  for (const bool is_large : {true, false}) {
    for (const int context : {512, 128}) {
      StudyRows one = profiles(is_large ? 0.7 : 0.6, context == 512 ? 0.2 : 0.1);
      for (Json& row : one[StudyPart::profile]) {
        row["context"] = context;
        row["model"] = testing::model(is_large ? "large" : "small", is_large ? 4e6 : 1e6);
        rows[StudyPart::profile].push_back(row);
      }
    }
  }
  return rows;
}

TEST(Answers, speak_of_every_profile) {
  StudyRows rows = four_profiles();
  const auto all = [&](int row) -> Json& { return rows[StudyPart::profile].at(row)["profile"]; };
  EXPECT_EQ(
      sentence(rows, "Which kernel takes"),
      "The longest kernel of a forward pass is gemm in 4 of 4 configurations (3 calls, 80 % of the kernel time). The "
      "longest kernel of a training step is the same: gemm in 4 of 4 configurations (3 calls, 60 % of the kernel "
      "time).");
  all(1)["kernels"][1]["time_ms"] = 70;
  all(1)["kernels"][1]["calls"] = 21;
  EXPECT_THAT(
      sentence(rows, "Which kernel takes"),
      HasSubstr(
          "longest kernel of a training step is the same in 3 of 4 configurations: gemm in 3 of 4 configurations (3 "
          "calls, 60 % of the kernel time), adamw in 1 of 4 configurations (21 calls, 30 %"));
  EXPECT_THAT(answer(rows, "Which kernel takes").evidence.at(0).text, HasSubstr("small, 4 x 128, fp32: gemm"));

  EXPECT_THAT(sentence(rows, "What share of the time do matrix"),
              AllOf(HasSubstr("80 % of the kernel time of a forward pass over 4 configurations"),
                    HasSubstr("and 60 % to 70 % of the kernel time of a training step over 4 configurations."),
                    Not(HasSubstr("Within the step"))));
  EXPECT_EQ(
      sentence(rows, "Which kernels besides"),
      "In a forward pass softmax kernels take the most in 4 of 4 configurations, 10 % to 20 %. In a training step "
      "optimizer kernels take the most in 4 of 4 configurations, 30 %.");
  all(0)["classes"].erase(1);
  EXPECT_THAT(sentence(rows, "Which kernels besides"),
              HasSubstr("softmax kernels take the most in 3 of 4 configurations"));

  all(2)["time"]["kernels_ms"] = 90;
  EXPECT_THAT(
      sentence(rows, "Does the time of the kernels"),
      HasSubstr("The kernels of a forward pass differ by -10.0 % to -2.0 % from the iteration timed without the "
                "profiler over 4 configurations; with"));
  EXPECT_EQ(answer(rows, "Does the time of the kernels").elsewhere.at(0).verdict, Verdict::not_comparable)
      << "no context of the claim";
  rows[StudyPart::profile][2]["timing"]["verdict"] = "disturbed";
  EXPECT_THAT(sentence(rows, "Does the time of the kernels"), HasSubstr("configurations (~ in doubt in 1 of 4); with"));
}

TEST(Answers, give_the_range_of_softmax_the_optimizer_and_idle_time) {
  StudyRows rows = four_profiles();
  int index = 0;
  for (Json& row : rows[StudyPart::profile]) {
    row["profile"]["attention"] = attention_parts(index < 4 ? 5 : 0.5)[StudyPart::profile][0]["profile"]["attention"];
    row["profile"]["time"]["idle_ms"] = ++index;
    row["profile"]["classes"].back()["share_of_kernel_time"] = 0.05 * index;
  }
  EXPECT_EQ(
      sentence(rows, "Inside attention"),
      "The two products take 4.00x to 40x the time of softmax, with 200x its operations; softmax is 2.4 % to 20 % of "
      "the time of attention over 4 configurations. Softmax moves 953.7 MiB at 0.20x to 2.00x the copy rate of main "
      "memory, so a part of them comes from the cache where it is more than 1.1x.");
  EXPECT_THAT(
      sentence(rows, "What share of a step"),
      HasSubstr("Over 4 configurations the optimizer takes 10 % to 40 % of the kernel time of a step. At the most "
                "it (adamw) takes 30.00 ms, 40 % of the kernel time of a step of small, 4 x 128, fp32."));
  EXPECT_EQ(sentence(rows, "How far is a step"),
            "At the measured rates of the machine 15 % of the time of a step could be saved over 4 configurations. The "
            "device is idle 2.0 % to 8.0 % of the time.");
}

TEST(Answers, name_the_share_of_the_largest_part_above_the_limit) {
  StudyRows rows = four_profiles();
  for (Json& row : rows[StudyPart::profile]) {
    for (const char* what : {"w1 matmul", "w2 matmul", "w3 matmul"})
      row["profile"]["recoverable"].push_back({{"what", what}, {"recoverable_ms", 11.0}});
  }
  EXPECT_THAT(answer(rows, "How far is a step").evidence.at(0).text,
              HasSubstr("48 % of 100.0 ms above the limit, the largest part in lm_head matmul (12.00 ms, 25 % of it);"))
      << "which once was most of it";
}

TEST(Answers, mark_ranges_over_profiles_in_doubt) {
  StudyRows rows = four_profiles();
  for (Json& row : rows[StudyPart::profile]) {
    row["profile"]["attention"] = attention_parts(5)[StudyPart::profile][0]["profile"]["attention"];
    row["timing"]["verdict"] = "throttled";
  }
  EXPECT_THAT(sentence(rows, "Inside attention"),
              HasSubstr("at 20 % of the copy rate of main memory (~ in doubt in 4"));
  EXPECT_THAT(sentence(rows, "What share of a step"), HasSubstr("kernel time of a step (~ in doubt in 4 of 4)."));
  EXPECT_THAT(sentence(rows, "How far is a step"), HasSubstr("idle 1.0 % of the time (~ in doubt in 4 of 4)."));
}

}  // namespace
}  // namespace ridgepoint
