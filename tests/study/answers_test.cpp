// Every rule of the answers, in both directions: other rows give another sentence. Here the answers about times of
// whole passes; files beside this one have those about other topics.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ridgepoint/ops/parallel.h"
#include "study/answer_rows.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

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
  EXPECT_EQ(all.size(), 40U);
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
              AllOf(HasSubstr("a forward pass of small takes 100.0 ms"), HasSubstr("about as fast as the parameters")));
  EXPECT_THAT(sentence(sizes(900), "How long do"),
              HasSubstr("9.00x as long with 4.00x the parameters, so the time grows faster than the parameters"));
  EXPECT_THAT(sentence(sizes(150), "How long do"), HasSubstr("more slowly than the parameters"));
}

TEST(Answers, compare_the_smallest_model_with_the_largest_whatever_their_order) {
  StudyRows rows = sizes(900);
  std::ranges::reverse(rows[StudyPart::sizes]);
  EXPECT_THAT(sentence(rows, "How long do"), HasSubstr("of large takes 900.0 ms: 9.00x as long with 4.00x"));
  rows[StudyPart::sizes][1]["context"] = 512;  // the other model at another size is no comparison
  EXPECT_THAT(sentence(rows, "How long do"), Not(HasSubstr("the parameters")));
}

TEST(Answers, relate_backward_to_forward_by_time_and_operations) {
  StudyRows rows = sizes(400);
  EXPECT_EQ(sentence(rows, "How long is backward"),
            "Backward takes 2.00x as long as forward. It has 2.00x the operations, so it computes at 1.00x the rate of "
            "forward.");
  EXPECT_THAT(answer(rows, "How long is backward").elsewhere.at(0).reason,
              AllOf(HasSubstr("Here they take 3.00x."), HasSubstr("the source does not state its card")));
  rows[StudyPart::sizes][1]["phase_ms"] = {{"forward", 50}, {"backward", 250}};
  rows[StudyPart::sizes][1]["timing"]["verdict"] = "disturbed";
  EXPECT_EQ(sentence(rows, "How long is backward"),
            "Backward takes 5.00x as long as forward (~ disturbed). It has 2.00x the operations, so it computes at "
            "0.40x the rate of forward.");
  rows[StudyPart::sizes][1].erase("flops_per_step");
  EXPECT_THAT(sentence(rows, "How long is backward"), Not(HasSubstr("operations")));
}

TEST(Answers, name_the_row_that_varies_most_and_the_rows_that_are_not_steady) {
  StudyRows rows = sizes(400);
  EXPECT_THAT(
      sentence(rows, "How much do the iterations"),
      AllOf(StartsWith("The largest standard deviation is 0.2 % of the mean (small, 4 x 256, fp32, forward). The "
                       "widest 95 % interval of a median ends 1.9 %"),
            HasSubstr("All 5 rows that were judged are steady.")));
  // A small deviation does not make rows steady, which the answer once said of rows that all were throttled.
  for (Json& row : rows[StudyPart::sizes]) row["timing"]["verdict"] = "throttled";
  EXPECT_THAT(sentence(rows, "How much do the iterations"),
              AllOf(HasSubstr("None of 5 rows is steady"), Not(HasSubstr("are steady"))));
  for (Json& row : rows[StudyPart::sizes]) row["timing"]["verdict"] = nullptr;
  EXPECT_THAT(sentence(rows, "How much do the iterations"), Not(HasSubstr("steady")));
  rows[StudyPart::sizes][3]["timing"]["verdict"] = "bimodal";
  rows[StudyPart::sizes][3]["time_ms"]["samples"] = {99, 100, 101};
  rows[StudyPart::sizes][3]["time_ms"]["cv"] = 0.4;
  const StudyAnswer found = answer(rows, "How much do the iterations");
  EXPECT_THAT(found.sentence, AllOf(HasSubstr("40 % of the mean (large"), HasSubstr("too few iterations")));
  EXPECT_THAT(found.evidence.at(0).text, HasSubstr("bimodal"));
}

TEST(Answers, name_the_end_of_an_interval_that_is_further_from_its_median) {
  const auto reach = [](const std::vector<double>& samples) {
    StudyRows rows = sizes(400);
    rows[StudyPart::sizes][3]["time_ms"]["samples"] = samples;
    return sentence(rows, "How much do the iterations");
  };
  // Half of the width of the interval, 20 %, was once called what it reaches to each side.
  EXPECT_THAT(reach({100, 140, 99, 140, 100, 100, 99, 140, 99, 100}),
              HasSubstr("of a median ends 40 % above the median (large, 4 x 256, fp32, forward)"));
  EXPECT_THAT(reach({100, 60, 101, 60, 100, 100, 101, 60, 101, 100}), HasSubstr("ends 40 % below the median (large"));
}

TEST(Answers, say_what_does_not_fit_beside_the_times) {
  StudyRows rows = sizes(400);
  Json step = bench_row("large", 4e6, "step", "fp32", 1);
  step["status"] = "oom";
  step["memory_bytes"] = {{"planned_peak", std::int64_t{192} << 30}};
  rows[StudyPart::sizes].push_back(step);
  EXPECT_EQ(answer(rows, "How long do").evidence.at(2).text,
            "large, fp32: forward 400.0 ms, step does not fit (planned peak 192.0 GiB)");
}

Json warmup_row(std::int64_t warmup, double first) {
  Json row = bench_row("small", 1e6, "forward", "fp32", 100);
  row["warmup"] = warmup;
  row["time_ms"]["samples"] = {first, 100, 100, 100, 100};
  row["time_ms"]["mean"] = (first + 400) / 5;
  return row;
}

TEST(Answers, say_what_the_first_iteration_costs_and_how_much_warmup_is_enough) {
  const StudyRows slow = {{StudyPart::warmup, {warmup_row(2, 101), warmup_row(0, 600), warmup_row(1, 120)}}};
  EXPECT_THAT(sentence(slow, "What does the warm-up"),
              AllOf(HasSubstr("takes 6.00x the median of the others, which puts the mean 100 % above the mean of the"),
                    HasSubstr("From 2 iterations of warm-up on")));
  const StudyRows never = {{StudyPart::warmup, {warmup_row(0, 600), warmup_row(1, 300)}}};
  EXPECT_THAT(sentence(never, "What does the warm-up"), HasSubstr("No measured warm-up"));
  const StudyRows unsure = {{StudyPart::warmup, {warmup_row(0, 600), warmup_row(1, 101), warmup_row(2, 138)}}};
  EXPECT_THAT(sentence(unsure, "What does the warm-up"), HasSubstr("No measured warm-up"));
  const StudyRows even = {{StudyPart::warmup, {warmup_row(0, 102)}}};
  EXPECT_THAT(sentence(even, "What does the warm-up"), HasSubstr("within 10 % of the others with every warm-up"));
  // The kernels of this process may have been made by an earlier one, whose first iteration then was the slow one.
  StudyRows after_others = even;
  after_others[StudyPart::sizes] = {bench_row("small", 1e6, "forward", "fp32", 100)};
  EXPECT_THAT(sentence(after_others, "What does the warm-up"), Not(HasSubstr("sizes")));
  after_others[StudyPart::sizes][0]["warmup_ms"] = {720, 101};
  EXPECT_THAT(
      sentence(after_others, "What does the warm-up"),
      HasSubstr("In the process that measured 'sizes' the first iteration of the same pass takes 720.0 ms, 7.20x the"));
  // The answer once called an iteration of half the time one that changes little.
  const StudyRows fast = {{StudyPart::warmup, {warmup_row(0, 50)}}};
  EXPECT_THAT(sentence(fast, "What does the warm-up"),
              AllOf(HasSubstr("takes 0.50x"), HasSubstr("10 % below"), HasSubstr("No measured warm-up")));
}

Json first_call(const Json& parts) {
  Json row = warmup_row(0, 100);
  for (const char* statistic : {"mean", "median"}) row["time_ms"][statistic] = nullptr;
  row["time_ms"]["samples"] = Json::array();
  row["first_call_ms"] = parts;
  return row;
}

TEST(Answers, sort_the_parts_of_a_first_call_by_time) {
  const char* question = "Why is the first iteration slow?";
  const Json call = first_call(
      {{"total", 1000}, {"context", 0.5}, {"kernels", 700.5}, {"first_run", 250}, {"memory", 49}, {"plan", 0}});
  const StudyRows rows = {{StudyPart::warmup, {call, warmup_row(0, 600), warmup_row(5, 100)}}};
  EXPECT_EQ(
      sentence(rows, question),
      "From the start of the process to the end of a forward pass of small, 4 x 256, fp32 it takes 1000 ms. The "
      "largest parts are kernels 700.5 ms (70 %), first run 250.0 ms (25 %), memory 49.00 ms (4.9 %). The first run "
      "itself takes 2.50x the median of iterations behind a warm-up of 5, 100.0 ms.");
  EXPECT_EQ(answer(rows, question).evidence.at(0).text,
            "kernels 700.5 ms (70 %): kernels are made or awaited, and their code is loaded");
  const StudyRows other = {{StudyPart::warmup, {first_call({{"total", 100}, {"first_run", 99}, {"kernels", 1}})}}};
  EXPECT_THAT(sentence(other, question), AllOf(HasSubstr("parts are first run 99.00 ms (99 %), kernels"),
                                               Not(HasSubstr("the median of iterations"))));
  Json with_cache = call;
  with_cache["cold_cache"] = false;
  EXPECT_THAT(sentence({{StudyPart::warmup, {with_cache}}}, question), HasSubstr("did not begin with an empty cache"));
  with_cache["cold_cache"] = true;
  EXPECT_THAT(sentence({{StudyPart::warmup, {with_cache}}}, question), Not(HasSubstr("empty cache")));
  // The row of the first call has no iterations, and says nothing of the warm-up.
  EXPECT_THAT(sentence(rows, "What does the warm-up"), HasSubstr("takes 6.00x the median of the others"));
  EXPECT_THAT(sentence(other, "What does the warm-up"), StartsWith("This study cannot say"));
  EXPECT_THAT(sentence({{StudyPart::warmup, {warmup_row(0, 600)}}}, question), StartsWith("This study cannot say"));
}

TEST(Answers, take_the_median_of_an_even_number_of_iterations_between_the_middle_two) {
  StudyRows rows = {{StudyPart::warmup, {warmup_row(0, 300)}}};
  rows[StudyPart::warmup][0]["time_ms"]["samples"] = {300, 100, 200};
  EXPECT_THAT(sentence(rows, "What does the warm-up"), HasSubstr("takes 2.00x the median of the others"));
}

TEST(Answers, say_whether_the_first_iteration_dominates_the_spread) {
  StudyRows calm = {{StudyPart::warmup, {warmup_row(0, 126)}}};
  EXPECT_THAT(answer(calm, "What does the warm-up").elsewhere.at(0).reason,
              AllOf(HasSubstr("takes 1.26x as long as the others, and makes 100 % of the variance"),
                    HasSubstr("another model (small, not 2.35b)")));
}

TEST(Answers, say_whether_bf16_is_faster_and_how_the_gains_compare) {
  const auto gain = [](double of_small, double of_large) {
    return sentence(sizes(400, of_small, of_large), "What does bf16");
  };
  EXPECT_THAT(gain(50, 100), AllOf(HasSubstr("of small is 2.00x as fast"), HasSubstr("Of large it is 4.00x"),
                                   HasSubstr("the gain is larger for the larger model")));
  EXPECT_THAT(gain(50, 320), HasSubstr("the gain is smaller for the larger model"));
  EXPECT_THAT(gain(50, 200), HasSubstr("The noise hides a difference of the gains"));
  EXPECT_THAT(gain(300, 1200), HasSubstr("of small is 3.00x as long"));
  EXPECT_THAT(gain(100, 400), HasSubstr("0.97x to 1.03x as fast, so the noise hides which is faster"));
}

TEST(Answers, call_no_ratio_of_few_samples_noise) {
  StudyRows rows = sizes(400, 60, 100);
  for (Json& row : rows[StudyPart::sizes]) row["time_ms"]["samples"] = {row["time_ms"]["median"]};
  EXPECT_THAT(sentence(rows, "What does bf16"),
              AllOf(HasSubstr("of small is 1.67x as fast, by too few iterations for an interval"),
                    Not(HasSubstr("noise")), HasSubstr("too few iterations to compare the gains")));
}

TEST(Answers, mark_figures_whose_samples_are_in_doubt) {
  StudyRows rows = sizes(400);
  rows[StudyPart::sizes][0]["timing"]["verdict"] = "too few";
  EXPECT_THAT(sentence(rows, "How long do"), HasSubstr("a forward pass of small takes 100.0 ms (~ too few) in fp32"));
  const StudyAnswer gain = answer(rows, "What does bf16");
  EXPECT_THAT(gain.sentence, HasSubstr("(1.95x to 2.05x, ~ too few)"));
  EXPECT_THAT(gain.evidence.at(0).text, HasSubstr("fp32 100.0 ms (~ too few), bf16 50.00 ms;"));
  EXPECT_THAT(gain.elsewhere.at(0).reason, HasSubstr("its timing is in doubt"));
}

Json context_row(std::int64_t context, double ms) {
  Json row = bench_row("small", 1e6, "forward", "fp32", ms);
  row["context"] = context;
  return row;
}

TEST(Answers, say_how_time_and_operations_grow_with_context) {
  const auto grows = [](double last, const Json& operations) {
    Json long_row = context_row(1024, last);
    long_row["flops_per_step"] = operations;
    return sentence({{StudyPart::contexts, {long_row, context_row(128, 10)}}},
                    "How does the time grow with the context");
  };
  EXPECT_EQ(grows(80, 1.6e7),
            "From 128 to 1024 tokens the time of a forward pass grows with the context to the power 1.00, and its "
            "operations to the power 1.33.");
  EXPECT_THAT(grows(300, nullptr), AllOf(HasSubstr("to the power 1.64."), Not(HasSubstr("attention"))));
}

TEST(Answers, give_the_growth_with_context_at_both_ends) {
  StudyRows rows = {
      {StudyPart::contexts, {context_row(128, 10), context_row(256, 10), context_row(512, 20), context_row(1024, 80)}}};
  rows[StudyPart::contexts][3]["timing"]["verdict"] = "throttled";
  for (Json& row : rows[StudyPart::contexts]) row.erase("flops_per_step");
  EXPECT_EQ(sentence(rows, "How does the time grow with the context"),
            "From 128 to 256 tokens the time of a forward pass grows with the context to the power 0.00. From 512 to "
            "1024 tokens the time of a forward pass grows with the context to the power 2.00 (~ throttled).")
      << "1.00 from end to end, which no context has";
}

StudyRows compiled_model(double ms, std::string_view mode = "step") {
  Json off = bench_row("small", 1e6, mode, "fp32", 100);
  Json full = bench_row("small", 1e6, mode, "fp32", ms);
  off["compile"] = "off";
  full["compile"] = "full";
  return {{StudyPart::compiled_model, {off, full}}};
}

TEST(Answers, say_what_compiling_a_model_gains) {
  EXPECT_THAT(sentence(compiled_model(50), "What does compiling a whole"),
              AllOf(HasSubstr("a training step of small is 2.00x as fast"), HasSubstr("with a peak 50 % lower")));
  EXPECT_THAT(sentence(compiled_model(200), "What does compiling a whole"), HasSubstr("2.00x as long"));
  EXPECT_THAT(sentence(compiled_model(100), "What does compiling a whole"), HasSubstr("the noise hides"));
  EXPECT_THAT(sentence(compiled_model(50, "forward_backward"), "What does compiling a whole"),
              HasSubstr("a forward and backward pass of small"));
  EXPECT_THAT(answer(compiled_model(90), "What does compiling a whole").elsewhere.at(0).reason,
              AllOf(HasSubstr("Here a step of small is 1.11x as fast. Not compared: another card (a processor, not RTX "
                              "A4500); another model (small, not large)"),
                    HasSubstr("batch 4, not 1")));
}

Json sum(std::string_view statement, double result, double error) {
  return {{"statement", statement}, {"result", result}, {"relative_error", error}};
}

TEST(Answers, give_the_error_of_a_sum_by_the_types_of_sum_and_terms) {
  const StudyRows usual = {{StudyPart::accumulation,
                            {sum("fp32 += fp32", 10.000133514404297, 1.3e-5), sum("fp16 += fp16", 9.953125, 4.7e-3),
                             sum("fp32 += fp16", 10.00213623046875, 2.1e-4), sum("bf16 += bf16", 1.5, 0.85)}}};
  EXPECT_THAT(sentence(usual, "What becomes of a sum"),
              AllOf(HasSubstr("10.00013"), HasSubstr("0.0047 with fp16 terms and an fp16 sum, 0.00021 with the same"),
                    Not(HasSubstr("stops at"))))
      << "at 1.5 a term is more than half of the last digit";
  for (const StudyClaim& claim : answer(usual, "What becomes of a sum").elsewhere)
    EXPECT_EQ(claim.verdict, Verdict::confirmed) << claim.text;
  const StudyRows other = {{StudyPart::accumulation,
                            {sum("fp32 += fp32", 10, 1e-7), sum("fp16 += fp16", 9.99, 1e-3),
                             sum("fp32 += fp16", 9.99, 1e-3), sum("bf16 += bf16", 4, 0.6)}}};
  EXPECT_THAT(sentence(other, "What becomes of a sum"), HasSubstr("In bf16 the sum stops at 4"));
  EXPECT_EQ(answer(other, "What becomes of a sum").elsewhere.at(0).verdict, Verdict::contradicted);
}

TEST(Answers, hold_a_published_sum_with_a_cast_apart_from_the_one_without) {
  const StudyRows rows = {{StudyPart::accumulation,
                           {sum("fp32 += fp32", 10.000133514404297, 1.3e-5), sum("fp16 += fp16", 9.953125, 4.7e-3),
                            sum("fp32 += fp16", 10.00213623046875, 2.1e-4), sum("fp32 += fp32(fp16)", 10.5, 5e-2)}}};
  const std::vector<StudyClaim> claims = answer(rows, "What becomes of a sum").elsewhere;
  ASSERT_EQ(claims.size(), 4U);
  EXPECT_EQ(claims[2].text, "fp32 += fp16 gives 10.00213623.");
  EXPECT_EQ(claims[2].verdict, Verdict::confirmed);
  EXPECT_EQ(claims[3].text, "fp32 += fp32(fp16) gives 10.00213623.");
  EXPECT_EQ(claims[3].verdict, Verdict::contradicted);
}

StudyRows autocast(std::string_view norm, std::string_view product = "fp16", std::string_view loss = "fp32") {
  return {{StudyPart::autocast,
           {{{"part", "parameter"}, {"module", "fc1.weight"}, {"result", "fp32"}},
            {{"part", "forward"}, {"module", "fc1"}, {"op", "matmul"}, {"result", product}},
            {{"part", "forward"}, {"module", "ln"}, {"op", "layer_norm"}, {"result", norm}},
            {{"part", "loss"}, {"module", "loss"}, {"op", "cross_entropy"}, {"result", loss}}}}};
}

TEST(Answers, say_whether_layer_norm_is_an_exception_under_autocast) {
  EXPECT_EQ(sentence(autocast("fp32"), "Which types"),
            "Parameters are in fp32. The loss is in fp32. Matrix products have results in fp16, layer norm in fp32, so "
            "here it is an exception.");
  EXPECT_EQ(answer(autocast("fp32"), "Which types").elsewhere.at(0).verdict, Verdict::confirmed);
  EXPECT_THAT(sentence(autocast("fp16"), "Which types"), HasSubstr("here it is no exception"));
  EXPECT_EQ(answer(autocast("fp16"), "Which types").elsewhere.at(0).verdict, Verdict::contradicted);
  // The answer once said of any rows that products run in the 16-bit type and the loss in fp32.
  EXPECT_THAT(sentence(autocast("fp32", "fp32", "fp16"), "Which types"),
              AllOf(HasSubstr("The loss is in fp16"), HasSubstr("Matrix products have results in fp32")));
}

// A sum of a thousand terms of 100.
Json large_sum(std::string_view statement, const Json& result, const Json& error) {
  return {{"statement", statement}, {"terms", 1000}, {"term", 100.0}, {"result", result}, {"relative_error", error}};
}

TEST(Answers, say_when_a_sum_overflows_fp16) {
  const char* question = "When does fp16 overflow";
  StudyRows rows = {{StudyPart::accumulation,
                     {sum("fp32 += fp32", 10.0001, 1e-5), sum("fp16 += fp16", 9.95, 4.7e-3),
                      sum("fp32 += fp16", 10.002, 2e-4), large_sum("fp16 += fp16", nullptr, nullptr),
                      large_sum("fp32 += fp16", 100000.0, 0.0), large_sum("bf16 += bf16", 32768.0, 0.672)}}};
  EXPECT_EQ(
      sentence(rows, question),
      "1000 terms of 100 are 100000, and the largest number of fp16 is 65504: their sum in fp16 is no finite number. "
      "With the same terms in fp16 and the sum in fp32 it is 100000, with a relative error of 0. In bf16 it is "
      "32768, with a relative error of 0.67.");
  EXPECT_THAT(sentence(rows, "What becomes of a sum"), HasSubstr("in fp16 9.95000")) << "of small terms";
  Json step = bench_row("small", 1e6, "step", "fp16", 100);
  step.update({{"warmup", 2}, {"steps", 6}, {"loss_scaling", {{"scale", 16384.0}, {"skipped_steps", 2}}}});
  rows[StudyPart::sizes] = {step, bench_row("small", 1e6, "step", "fp32", 100)};
  EXPECT_THAT(sentence(rows, question),
              EndsWith("Loss scaling skipped 2 of 8 updates of a training step (small, 4 x 256, fp16), those with a "
                       "gradient that was not finite, and left a scale of 16384."));
  rows[StudyPart::accumulation][3]["result"] = 2048;
  EXPECT_THAT(sentence(rows, question), HasSubstr("their sum in fp16 is 2048."));
  rows[StudyPart::accumulation][3]["terms"] = 100;
  EXPECT_THAT(sentence(rows, question), StartsWith("This study cannot say")) << "10000 is no overflow";
}

TEST(Answers, name_the_types_of_the_tensors_of_a_step) {
  const char* question = "Which type have parameters";
  StudyRows rows = autocast("fp32");
  std::vector<Json>& all = rows[StudyPart::autocast];
  all[1]["operands"] = "fp16";
  EXPECT_EQ(sentence(rows, question),
            "Where products multiply fp16: parameters fp32, first layer (fc1 fp16), norm (ln fp32), loss fp32.");
  all.insert(all.begin() + 3, Json{{"part", "forward"}, {"module", "fc2"}, {"op", "matmul"}, {"result", "fp16"}});
  all.push_back({{"part", "backward"}, {"module", "fc2"}, {"op", "matmul"}, {"result", "fp16"}});
  all.push_back({{"part", "gradient"}, {"module", "fc1.weight"}, {"result", "bf16"}});
  const std::vector<Json> other = autocast("bf16", "bf16")[StudyPart::autocast];
  all.insert(all.end(), other.begin(), other.end());
  EXPECT_EQ(sentence(rows, question),
            "Where products multiply fp16: parameters fp32, first layer (fc1 fp16), norm (ln fp32), logits (fc2 fp16), "
            "loss fp32, gradients of parameters bf16. Of one model: parameters fp32, first layer (fc1 bf16), norm (ln "
            "bf16), loss fp32.");
  EXPECT_EQ(answer(rows, question).evidence.at(1).text, "Where products multiply fp16: backward: fc2 matmul fp16");
}

TEST(Answers, compare_errors_with_norms_in_either_type) {
  const char* question = "Does layer norm still need fp32";
  const auto rows = [](const Json& low_forward) {
    return StudyRows{{StudyPart::precision_error,
                      {{{"module", "ln"},
                        {"bf16.forward", 0.004},
                        {"bf16_low_norms.forward", low_forward},
                        {"bf16.gradient", 0.007},
                        {"bf16_low_norms.gradient", 0.0084}}}}};
  };
  EXPECT_EQ(sentence(rows(0.005), question),
            "Against double precision, norms in bf16 instead of fp32 change the largest error of a module's result "
            "from 0.004 "
            "to 0.005 (1.25x) and the largest error of a module's gradients from 0.007 to 0.0084 (1.20x).");
  EXPECT_THAT(sentence(rows(0.4), question), HasSubstr("from 0.004 to 0.4 (100x)"));
  EXPECT_THAT(sentence(rows(nullptr), question), AllOf(Not(HasSubstr("result")), HasSubstr("gradients")));
  StudyRows without = rows(0.005);
  without[StudyPart::precision_error][0].erase("bf16_low_norms.forward");
  without[StudyPart::precision_error][0].erase("bf16_low_norms.gradient");
  EXPECT_THAT(sentence(without, question), StartsWith("This study cannot say"));
}

TEST(Answers, name_the_steps_of_a_norm_that_need_fp32) {
  const char* question = "Which parts of layer norm are sensitive";
  const auto rows = [](const Json& squares) {
    const auto row = [](const char* step, double largest, const Json& error) {
      return Json{{"step", step}, {"spread", 300.0}, {"largest", largest}, {"fp16.error", error}};
    };
    return StudyRows{{StudyPart::accumulation,
                      {row("x - mean", 900, 2e-4), row("squares", 8.1e5, squares), row("product", 3, 3e-4),
                       row("all", 8.1e5, nullptr)}}};
  };
  EXPECT_EQ(
      sentence(rows(nullptr), question),
      "In fp16, with values of mean and deviation 300, each of these steps alone loses the result, with an error of "
      "100 % or more: 'squares' (values up to 8.1e+05). In fp16, with values of mean and deviation 300, the step "
      "'product' adds the largest other error, 0.0003, and 'x - mean' the smallest, 0.0002.");
  EXPECT_THAT(sentence(rows(1), question), HasSubstr("'squares' (values"));
  EXPECT_THAT(sentence(rows(0.5), question),
              AllOf(Not(HasSubstr("loses")), HasSubstr("'squares' adds the largest error")));
  EXPECT_THAT(sentence({}, question), StartsWith("This study cannot say"));
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
  EXPECT_EQ(of(ranks_row("none", 100, 92, 0.1, 1000)),
            "Where each rank has the batch that one has alone, a step of small on 2 ranks keeps 92 % of the speed of "
            "one rank alone: it takes 8.00 ms longer, and communication that nothing hides takes 9.00 ms.");
  EXPECT_EQ(of(ranks_row("none", 100, 80, 0.95, 1000)),
            "Where each rank has the batch that one has alone, a step of small on 2 ranks keeps 80 % of the speed of "
            "one rank alone: it takes 20.00 ms longer, and communication that nothing hides takes 0.5000 ms.");
  EXPECT_EQ(of(ranks_row("none", 100, 101, 1, 1000)),
            "Where each rank has the batch that one has alone, a step of small on 2 ranks keeps 101 % of the speed of "
            "one rank alone.");
  EXPECT_EQ(answer({{StudyPart::ranks, {ranks_row("optimizer", 1, 1, 1, 1)}}}, "How much of its speed").missing,
            StudyPart::ranks);
}

TEST(Answers, weigh_sharding) {
  const auto of = [](const Json& sharded) {
    return sentence({{StudyPart::ranks, {ranks_row("none", 100, 95, 0.9, 4096), sharded}}}, "What does dividing");
  };
  EXPECT_EQ(of(ranks_row("parameters", 120, 95, 0.9, 1024)),
            "Of small, 'parameters' has the lowest peak: 1.00 KiB instead of 4.00 KiB (75 % less), for a step that is "
            "1.20x as long (1.17x to 1.23x) (gradients not measured).");
  EXPECT_THAT(of(ranks_row("optimizer", 100, 95, 0.9, 2048)),
              HasSubstr("so the noise hides which is faster (gradients and parameters not measured)."));
  EXPECT_EQ(of(ranks_row("optimizer", 90, 95, 0.9, 5000)), "No sharding lowers the peak of small.");
}

TEST(Answers, compare_the_ways_to_sum_gradients) {
  const auto way = [](bool overlap, std::int64_t bucket, double ms) {
    Json row = ranks_row("none", ms, 90, 0.5, 4096);
    row["parallel"]["overlap"] = overlap;
    row["parallel"]["bucket_bytes"] = bucket;
    return row;
  };
  const auto of = [&](double flat_ms) {
    return sentence(
        {{StudyPart::data_parallel,
          {way(false, kEachGradient, 120), way(false, kAllGradients, flat_ms), way(true, 10'000'000, 100)}}},
        "How should gradients be summed");
  };
  EXPECT_THAT(of(120),
              AllOf(HasSubstr("takes 120.0 ms with gradients one by one behind backward"),
                    HasSubstr("as one message behind backward it is 0.97x to 1.03x as fast, so the noise hides"),
                    HasSubstr("in buckets of 9.54 MiB beside backward it is 1.20x as fast")));
  EXPECT_THAT(of(130), HasSubstr("as one message behind backward it is 1.08x as long"));
}

TEST(Answers, say_what_a_rank_holds_around_the_optimizer) {
  const auto row = [](const char* shard, double initialised, double before, double after) {
    Json made = bench_row("small", 1e8, "step", "fp32", 100);
    made["parallel"] = {{"data", 2}, {"shard", shard}};
    made["memory"]["ranks"] = Json::array({{{"initialised_bytes", initialised * (1 << 30)},
                                            {"before_optimizer_bytes", before * (1 << 30)},
                                            {"after_optimizer_bytes", after * (1 << 30)}}});
    return made;
  };
  EXPECT_THAT(sentence({{StudyPart::sharded_memory, {row("none", 4, 6, 5), row("optimizer", 3, 4.5, 3.5)}}},
                       "What does a rank hold"),
              AllOf(HasSubstr("A rank of 2 with"), HasSubstr("holds 4.00 GiB, 6.00 GiB and 5.00 GiB if nothing is"),
                    HasSubstr("Before the step it holds with optimizer 4.50 GiB.")));
}

TEST(Answers, say_how_long_the_problem_of_the_leaderboard_takes) {
  const char* question = "How long does the problem of the leaderboard";
  Json call = {{"attention", "flash"},
               {"context", 16384},
               {"model", {{"heads", 16}}},
               {"forward_ms", {{"median", 1.5}}},
               {"backward_ms", {{"median", 4}}}};
  EXPECT_EQ(sentence({{StudyPart::leaderboard, {call}}}, question),
            "flash attention with 16 heads over 16384 tokens takes 5.50 ms, forward and backward.");
  call["forward_ms"] = call["backward_ms"] = nullptr;
  call["memory_bytes"] = {{"peak_allocated", std::int64_t{3} << 20}};
  EXPECT_EQ(sentence({{StudyPart::leaderboard, {call}}}, question), "No time is known, and the call needs 3.00 MiB.");
  Json step = {{"parallel", {{"data", 2}, {"shard", "optimizer"}, {"slowest_ms", 5}}}};
  step["memory_bytes"] = {{"planned_peak", std::int64_t{2} << 30}};
  EXPECT_EQ(sentence({{StudyPart::leaderboard, {step}}}, question), "A step takes 5.00 ms, and a rank needs 2.00 GiB.");
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
