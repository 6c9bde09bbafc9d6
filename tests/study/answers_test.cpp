// Every rule of the answers, in both directions: other rows give another sentence. Here the answers about times of
// whole passes; files beside this one have those about other topics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "study/answer_rows.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Verdict = StudyClaim::Verdict;
using testing::answer;
using testing::bench_row;
using testing::sentence;

StudyRows sizes(double large_forward_ms, double bf16_of_small = 50, double bf16_of_large = 100) {
  return {{StudyPart::sizes,
           {bench_row("small", 1e6, "forward", "fp32", 100), bench_row("small", 1e6, "forward_backward", "fp32", 300),
            bench_row("small", 1e6, "forward", "bf16", bf16_of_small),
            bench_row("large", 4e6, "forward", "fp32", large_forward_ms),
            bench_row("large", 4e6, "forward", "bf16", bf16_of_large)}}};
}

TEST(Answers, say_which_part_has_no_rows) {
  const std::vector<StudyAnswer> all = answer_questions({});
  EXPECT_EQ(all.size(), 33U);
  for (const StudyAnswer& each : all) {
    EXPECT_THAT(each.sentence, StartsWith("This study cannot say: its part '")) << each.question;
    EXPECT_THAT(each.evidence, IsEmpty()) << each.question;
    EXPECT_THAT(each.elsewhere, IsEmpty()) << each.question;
    EXPECT_TRUE(each.missing.has_value()) << each.question;
  }
}

TEST(Answers, leave_rows_out_that_ran_out_of_memory) {
  Json row = bench_row("small", 1e6, "forward", "fp32", 100);
  row["status"] = "oom";
  EXPECT_THAT(sentence({{StudyPart::sizes, {row}}}, "How long do"), StartsWith("This study cannot say"));
}

TEST(Answers, compare_the_growth_of_time_with_that_of_parameters) {
  EXPECT_THAT(sentence(sizes(400), "How long do"),
              AllOf(HasSubstr("a forward pass of small takes 100.0 ms"), HasSubstr("as fast as the parameters")));
  EXPECT_THAT(sentence(sizes(900), "How long do"),
              HasSubstr("9.00x as long with 4.00x the parameters, so the time grows faster than the parameters"));
  EXPECT_THAT(sentence(sizes(150), "How long do"), HasSubstr("more slowly than the parameters"));
}

TEST(Answers, relate_backward_to_forward) {
  StudyRows rows = sizes(400);
  EXPECT_THAT(
      sentence(rows, "How long is backward"),
      HasSubstr(
          "takes 2.00x as long as forward. Its products have twice the operations of forward's, and the time follows"));
  EXPECT_EQ(answer(rows, "How long is backward").elsewhere.at(0).verdict, Verdict::confirmed);
  rows[StudyPart::sizes][1]["phase_ms"] = {{"forward", 100}, {"backward", 250}};
  rows[StudyPart::sizes].push_back(rows[StudyPart::sizes][0]);
  rows[StudyPart::sizes].push_back(rows[StudyPart::sizes][1]);
  for (const std::size_t added : {5, 6}) rows[StudyPart::sizes][added]["model"]["name"] = "other";
  rows[StudyPart::sizes][6]["phase_ms"] = {{"forward", 100}, {"backward", 150}};
  EXPECT_THAT(sentence(rows, "How long is backward"),
              AllOf(HasSubstr("1.50x to 2.50x"), HasSubstr("does not follow them at every size")));
  rows[StudyPart::sizes].resize(5);
  rows[StudyPart::sizes][1]["phase_ms"] = {{"forward", 50}, {"backward", 250}};
  EXPECT_THAT(sentence(rows, "How long is backward"), HasSubstr("other work makes it longer than twice"));
  rows[StudyPart::sizes][1]["phase_ms"] = {{"forward", 200}, {"backward", 240}};
  EXPECT_THAT(sentence(rows, "How long is backward"), HasSubstr("shorter than twice"));
  rows[StudyPart::sizes][1]["time_ms"]["median"] = 600;
  EXPECT_EQ(answer(rows, "How long is backward").elsewhere.at(0).verdict, Verdict::contradicted);
}

TEST(Answers, name_the_row_that_varies_most_and_the_rows_that_are_not_steady) {
  StudyRows rows = sizes(400);
  EXPECT_THAT(sentence(rows, "How much do the iterations"),
              AllOf(HasSubstr("the iterations are steady"), HasSubstr("Every row has the verdict steady")));
  rows[StudyPart::sizes][3]["time_ms"]["cv"] = 0.05;
  EXPECT_THAT(sentence(rows, "How much do the iterations"),
              AllOf(HasSubstr("5.0 % of the mean (large"), HasSubstr("need more iterations")));
  rows[StudyPart::sizes][3]["time_ms"]["cv"] = 0.4;
  rows[StudyPart::sizes][3]["timing"]["verdict"] = "bimodal";
  const StudyAnswer found = answer(rows, "How much do the iterations");
  EXPECT_THAT(found.sentence, AllOf(HasSubstr("say nothing"), HasSubstr("1 of 5 rows is not steady")));
  EXPECT_THAT(found.evidence.at(0).text, HasSubstr("bimodal"));
}

Json warmup_row(std::int64_t warmup, double first) {
  Json row = bench_row("small", 1e6, "forward", "fp32", 100);
  row["warmup"] = warmup;
  row["time_ms"]["samples"] = {first, 100, 100, 100, 100};
  row["time_ms"]["mean"] = (first + 400) / 5;
  return row;
}

TEST(Answers, say_what_the_first_iteration_costs_and_how_much_warmup_is_enough) {
  const StudyRows slow = {{StudyPart::warmup, {warmup_row(0, 600), warmup_row(1, 120), warmup_row(2, 101)}}};
  EXPECT_THAT(sentence(slow, "What does the warm-up"),
              AllOf(HasSubstr("takes 6.00x as long as the others, which puts the mean 100 % above"),
                    HasSubstr("After 2 iterations of warm-up")));
  EXPECT_EQ(answer(slow, "What does the warm-up").elsewhere.at(0).verdict, Verdict::confirmed);
  const StudyRows never = {{StudyPart::warmup, {warmup_row(0, 600), warmup_row(1, 300)}}};
  EXPECT_THAT(sentence(never, "What does the warm-up"), HasSubstr("No measured warm-up"));
  const StudyRows unsure = {{StudyPart::warmup, {warmup_row(0, 600), warmup_row(1, 101), warmup_row(2, 138)}}};
  EXPECT_THAT(sentence(unsure, "What does the warm-up"), HasSubstr("No measured warm-up"));
  const StudyRows even = {{StudyPart::warmup, {warmup_row(0, 102)}}};
  EXPECT_THAT(sentence(even, "What does the warm-up"), HasSubstr("here it changes little"));
  EXPECT_EQ(answer(even, "What does the warm-up").elsewhere.at(0).verdict, Verdict::contradicted);
}

TEST(Answers, say_whether_the_first_iteration_dominates_the_spread) {
  StudyRows calm = {{StudyPart::warmup, {warmup_row(0, 126)}}};
  EXPECT_EQ(answer(calm, "What does the warm-up").elsewhere.at(0).verdict, Verdict::confirmed);
  EXPECT_THAT(answer(calm, "What does the warm-up").elsewhere.at(0).reason,
              HasSubstr("takes 1.26x as long as the others, and makes 100 % of the variance"));
  calm[StudyPart::warmup][0]["time_ms"]["samples"] = {126, 100, 160, 80, 100};
  EXPECT_EQ(answer(calm, "What does the warm-up").elsewhere.at(0).verdict, Verdict::contradicted);
}

TEST(Answers, say_whether_bf16_is_faster_and_the_trend_with_size) {
  EXPECT_THAT(sentence(sizes(400, 50, 100), "What does bf16"),
              AllOf(HasSubstr("small in bf16 is 2.00x as fast"), HasSubstr("the gain grows with size")));
  EXPECT_THAT(sentence(sizes(400, 50, 320), "What does bf16"), HasSubstr("the gain falls with size"));
  EXPECT_THAT(sentence(sizes(400, 50, 200), "What does bf16"), HasSubstr("the gain hardly changes with size"));
  EXPECT_THAT(sentence(sizes(400, 300, 1200), "What does bf16"), HasSubstr("is slower (0.33x as fast)"));
  EXPECT_THAT(sentence(sizes(400, 100, 400), "What does bf16"), HasSubstr("no different beyond the noise"));
}

Json context_row(std::int64_t context, double ms) {
  Json row = bench_row("small", 1e6, "forward", "fp32", ms);
  row["context"] = context;
  return row;
}

TEST(Answers, say_how_time_grows_with_context) {
  const auto grows = [](double last) {
    return sentence({{StudyPart::contexts, {context_row(128, 10), context_row(1024, last)}}},
                    "How does the time grow with the context");
  };
  EXPECT_THAT(grows(80), AllOf(HasSubstr("to the power 1.00"), HasSubstr("nearly with the tokens")));
  EXPECT_THAT(grows(300), HasSubstr("attention, which grows with its square, already counts"));
  EXPECT_THAT(grows(20), HasSubstr("short sequences do not fill the machine"));
}

StudyRows compiled_model(double ms) {
  Json off = bench_row("small", 1e6, "step", "fp32", 100);
  Json full = bench_row("small", 1e6, "step", "fp32", ms);
  off["compile"] = "off";
  full["compile"] = "full";
  return {{StudyPart::compiled_model, {off, full}}};
}

TEST(Answers, say_what_compiling_a_model_gains) {
  EXPECT_THAT(sentence(compiled_model(50), "What does compiling a whole"),
              AllOf(HasSubstr("a step of small is 2.00x as fast"), HasSubstr("with a peak 50 % lower")));
  EXPECT_THAT(sentence(compiled_model(200), "What does compiling a whole"), HasSubstr("2.00x as slow"));
  EXPECT_THAT(sentence(compiled_model(100), "What does compiling a whole"), HasSubstr("no different beyond the noise"));
  const auto claim = [](double compiled_ms) {
    return answer(compiled_model(compiled_ms), "What does compiling a whole").elsewhere.at(0);
  };
  EXPECT_THAT(claim(50).reason, HasSubstr("it gains more: a step of small is 2.00x as fast"));
  EXPECT_THAT(claim(90).reason, HasSubstr("Here a step of small is 1.11x as fast"));
  EXPECT_EQ(claim(90).verdict, Verdict::confirmed);
  EXPECT_EQ(claim(100).verdict, Verdict::contradicted);
}

Json sum(std::string_view statement, double result, double error) {
  return {{"statement", statement}, {"result", result}, {"relative_error", error}};
}

TEST(Answers, say_whether_the_type_of_the_sum_or_of_the_terms_matters) {
  const StudyRows usual = {{StudyPart::accumulation,
                            {sum("fp32 += fp32", 10.000133514404297, 1.3e-5), sum("fp16 += fp16", 9.953125, 4.7e-3),
                             sum("fp32 += fp16", 10.00213623046875, 2.1e-4)}}};
  EXPECT_THAT(sentence(usual, "What becomes of a sum"),
              AllOf(HasSubstr("10.00013"), HasSubstr("22x closer"), Not(HasSubstr("stops at"))));
  for (const StudyClaim& claim : answer(usual, "What becomes of a sum").elsewhere)
    EXPECT_EQ(claim.verdict, Verdict::confirmed) << claim.text;
  const StudyRows other = {{StudyPart::accumulation,
                            {sum("fp32 += fp32", 10, 1e-7), sum("fp16 += fp16", 9.99, 1e-3),
                             sum("fp32 += fp16", 9.99, 1e-3), sum("bf16 += bf16", 4, 0.6)}}};
  EXPECT_THAT(sentence(other, "What becomes of a sum"),
              AllOf(HasSubstr("rounding the terms is what costs"), HasSubstr("In bf16 the sum stops at 4")));
  EXPECT_EQ(answer(other, "What becomes of a sum").elsewhere.at(0).verdict, Verdict::contradicted);
}

StudyRows autocast(std::string_view norm) {
  return {{StudyPart::autocast,
           {{{"part", "forward"}, {"module", "fc1"}, {"op", "matmul"}, {"result", "fp16"}},
            {{"part", "forward"}, {"module", "ln"}, {"op", "layer_norm"}, {"result", norm}}}}};
}

TEST(Answers, say_whether_layer_norm_is_an_exception_under_autocast) {
  EXPECT_THAT(sentence(autocast("fp32"), "Which types"), HasSubstr("results in fp32: its mean and variance"));
  EXPECT_EQ(answer(autocast("fp32"), "Which types").elsewhere.at(0).verdict, Verdict::confirmed);
  EXPECT_THAT(sentence(autocast("fp16"), "Which types"), HasSubstr("here it is not an exception"));
  EXPECT_EQ(answer(autocast("fp16"), "Which types").elsewhere.at(0).verdict, Verdict::contradicted);
}

TEST(Answers, order_the_types_by_their_errors) {
  const auto rows = [](double bf16, double fp16) {
    return StudyRows{{StudyPart::precision_error,
                      {{{"module", "fc1"},
                        {"fp32.forward", 1e-7},
                        {"bf16.forward", bf16},
                        {"fp16.forward", fp16},
                        {"fp16.gradient", nullptr}}}}};
  };
  EXPECT_THAT(sentence(rows(3e-3, 4e-4), "How large are the errors"),
              AllOf(HasSubstr("1e-07 in fp32"), HasSubstr("0.003 in bf16, the least exact")));
  EXPECT_THAT(sentence(rows(3e-4, 4e-2), "How large are the errors"), HasSubstr("0.04 in fp16, the least exact"));
}

// A row of two ranks whose collectives run a tenth of the step.
Json ranks_row(std::string_view shard, double slowest_ms, double alone_ms, double hidden, double peak) {
  Json row = bench_row("small", 1e6, "step", "bf16", slowest_ms);
  const double communication = 0.1 * slowest_ms;
  row["parallel"] = {{"data", 2},
                     {"shard", shard},
                     {"slowest_ms", slowest_ms},
                     {"alone_ms", alone_ms},
                     {"communication_ms", communication},
                     {"exposed_ms", (1 - hidden) * communication},
                     {"hidden", hidden}};
  row["memory_bytes"]["peak_allocated"] = peak;
  return row;
}

TEST(Answers, say_how_much_speed_ranks_keep_and_why) {
  const auto of = [](const Json& row) { return sentence({{StudyPart::ranks, {row}}}, "How much of its speed"); };
  EXPECT_EQ(
      of(ranks_row("none", 100, 92, 0.1, 1000)),
      "On 2 ranks, each with the batch of one, a step of small keeps 92 % of the speed of one rank alone (most of the "
      "loss is communication that nothing hides).");
  EXPECT_EQ(
      of(ranks_row("none", 100, 80, 0.95, 1000)),
      "On 2 ranks, each with the batch of one, a step of small keeps 80 % of the speed of one rank alone (most of the "
      "loss is not exposed communication: the ranks share other resources).");
  EXPECT_EQ(of(ranks_row("none", 100, 101, 1, 1000)),
            "On 2 ranks, each with the batch of one, a step of small keeps 101 % of the speed of one rank alone.");
  EXPECT_EQ(answer({{StudyPart::ranks, {ranks_row("optimizer", 1, 1, 1, 1)}}}, "How much of its speed").missing,
            StudyPart::ranks);
}

TEST(Answers, weigh_sharding) {
  const auto of = [](const Json& sharded) {
    return sentence({{StudyPart::ranks, {ranks_row("none", 100, 95, 0.9, 4096), sharded}}}, "What does dividing");
  };
  EXPECT_EQ(
      of(ranks_row("parameters", 120, 95, 0.9, 1024)),
      "Of small, 'parameters' has the lowest peak: 1.00 KiB instead of 4.00 KiB (75 % less), for a step that takes "
      "1.20x as long (gradients not measured).");
  EXPECT_THAT(of(ranks_row("optimizer", 100, 95, 0.9, 2048)),
              HasSubstr("1.00x as long, which is within the noise (gradients and parameters not measured)."));
  EXPECT_EQ(of(ranks_row("optimizer", 90, 95, 0.9, 5000)), "No sharding lowers the peak of small.");
}

TEST(Answers, say_what_collectives_reach) {
  const auto row = [](double bytes, double us, double bus, double share, double wrong) {
    return Json{{"op", "all_reduce"},       {"dtype", "fp32"},     {"bytes", bytes}, {"time_us", us},
                {"bus_gb_per_second", bus}, {"link_share", share}, {"wrong", wrong}};
  };
  const auto of = [&](const Json& most) {
    return sentence({{StudyPart::collectives, {row(1024, 12, 0.1, 0.001, 0), most}}}, "What bandwidth");
  };
  EXPECT_EQ(
      of(row(1 << 30, 3300, 330, 0.73, 0)),
      "By the bandwidth of a link of a ring: all_reduce 330.00 GB/s (73 % of the link) at 1.00 GiB, and 12.0 us at "
      "1.00 KiB.");
  Json without_link = row(1 << 20, 300, 3, 0, 2);
  without_link.erase("link_share");
  EXPECT_EQ(
      of(without_link),
      "By the bandwidth of a link of a ring: all_reduce 3.00 GB/s at 1.00 MiB, and 12.0 us at 1.00 KiB. 2 elements of "
      "the results are wrong.");
}

}  // namespace
}  // namespace ridgepoint
