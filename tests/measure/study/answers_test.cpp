// Every rule of the answers, in both directions: other rows give another sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/study/answer.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Verdict = StudyClaim::Verdict;

StudyAnswer answer(const StudyRows& rows, std::string_view question) {
  for (StudyAnswer& each : answer_questions(rows)) {
    if (each.question.starts_with(question)) return each;
  }
  ADD_FAILURE() << "there is no question " << question;
  return {};
}

std::string sentence(const StudyRows& rows, std::string_view question) { return answer(rows, question).sentence; }

Json model(std::string_view name, double parameters) {
  return {{"name", name}, {"parameters", parameters}, {"d_model", 64}};
}

// A timed row whose samples all are near `ms`.
Json bench_row(std::string_view size, double parameters, std::string_view mode, std::string_view dtype, double ms) {
  std::vector<double> samples;
  for (int i = -4; i <= 4; ++i) samples.push_back(ms * (1 + 0.001 * i));
  return {{"schema", 1},
          {"command", "bench"},
          {"status", "ok"},
          {"mode", mode},
          {"dtype", dtype},
          {"batch", 4},
          {"context", 256},
          {"model", model(size, parameters)},
          {"device", {{"kind", "cpu"}, {"name", "a processor"}}},
          {"time_ms", {{"mean", ms}, {"std", 0.002 * ms}, {"median", ms}, {"cv", 0.002}, {"samples", samples}}},
          {"phase_ms", {{"forward", ms / 3}, {"backward", ms * 2 / 3}}},
          {"memory_bytes", {{"peak_allocated", 1000 * ms}, {"before_backward", 500 * ms}}},
          {"timing", {{"verdict", "steady"}}}};
}

StudyRows sizes(double large_forward_ms, double bf16_of_small = 50, double bf16_of_large = 100) {
  return {{StudyPart::sizes,
           {bench_row("small", 1e6, "forward", "fp32", 100), bench_row("small", 1e6, "backward", "fp32", 300),
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

TEST(Answers, compare_kernels_with_the_clock) {
  StudyRows rows = profiles();
  EXPECT_EQ(sentence(rows, "Does the time of the kernels"), "The kernels add up to the timed iteration within 2.0 %.");
  EXPECT_EQ(answer(rows, "Does the time of the kernels").elsewhere.at(0).verdict, Verdict::confirmed);
  rows[StudyPart::profile][1]["profile"]["time"]["kernels_ms"] = 50;
  EXPECT_THAT(sentence(rows, "Does the time of the kernels"), HasSubstr("within 50 %, so idle time"));
  EXPECT_EQ(answer(rows, "Does the time of the kernels").elsewhere.at(0).verdict, Verdict::contradicted);
  rows[StudyPart::profile][0]["timing"]["verdict"] = "disturbed";
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
  EXPECT_THAT(verdicts(profiles(0.9)), ElementsAre(Verdict::confirmed, Verdict::contradicted));
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

Json call(std::string_view attention, std::int64_t sequence, double ms, double saved,
          std::string_view compile = "off") {
  return {{"schema", 1},
          {"command", "attention"},
          {"status", "ok"},
          {"attention", attention},
          {"compile", compile},
          {"dtype", "fp32"},
          {"batch", 8},
          {"context", sequence},
          {"model", {{"d_model", 64}}},
          {"forward_ms", {{"median", ms}}},
          {"backward_ms", {{"median", 2 * ms}}},
          {"memory_bytes", {{"before_backward", saved}, {"peak_allocated", 2 * saved}}}};
}

TEST(Answers, say_what_the_memory_of_attention_grows_with) {
  const auto grid = [](double last) {
    return answer({{StudyPart::attention_grid, {call("naive", 1024, 1, 100), call("naive", 4096, 16, last)}}},
                  "How do the time of attention");
  };
  EXPECT_THAT(grid(1600).sentence, AllOf(HasSubstr("the memory to the power 2.00"), HasSubstr("quadratic")));
  EXPECT_EQ(grid(1600).elsewhere.at(0).verdict, Verdict::confirmed);
  EXPECT_THAT(grid(400).sentence, HasSubstr("linear, still count"));
  EXPECT_EQ(grid(400).elsewhere.at(0).verdict, Verdict::contradicted);
  const StudyAnswer at_short =
      answer({{StudyPart::attention_grid, {call("naive", 256, 1, 100), call("naive", 1024, 16, 1200)}}},
             "How do the time of attention");
  EXPECT_EQ(at_short.elsewhere.at(0).verdict, Verdict::not_comparable);
  EXPECT_THAT(sentence({{StudyPart::attention_grid, {call("naive", 1024, 1, 100)}}}, "How do the time of attention"),
              HasSubstr("Only one sequence length ran"));
}

TEST(Answers, say_where_attention_ran_out_of_memory) {
  Json oom = call("naive", 16384, 1, 1);
  oom["status"] = "oom";
  EXPECT_THAT(sentence({{StudyPart::attention_grid, {call("naive", 1024, 1, 100), oom}}}, "Where does attention"),
              HasSubstr("does not fit is 16384 tokens"));
  oom["device"]["memory_limit_bytes"] = std::int64_t{1} << 30;
  EXPECT_THAT(sentence({{StudyPart::attention_grid, {oom}}}, "Where does attention"),
              HasSubstr("does not fit into 1.0 GiB is 16384 tokens"));
  const auto longest = [&](std::string_view confirmed) {
    const Json limit = {{"attention", "naive"}, {"memory_bytes", 1073741824},   {"longest_sequence", 900},
                        {"next_sequence", 901}, {"peak_allocated_bytes", 1000}, {"confirmed", confirmed}};
    return sentence({{StudyPart::attention_grid, {call("naive", 1024, 1, 100)}}, {StudyPart::attention_limit, {limit}}},
                    "Where does attention");
  };
  EXPECT_THAT(longest("yes"), AllOf(HasSubstr("Every row of the grid fits"),
                                    HasSubstr("fits into 1.0 GiB is 900 tokens"), HasSubstr("a run of it did fit")));
  EXPECT_THAT(longest("no"), HasSubstr("but a run of it did not fit"));
  EXPECT_THAT(longest(""), HasSubstr("no run has tried it"));
}

TEST(Answers, compare_the_account_with_the_measurement) {
  const auto account = [](double predicted) {
    const auto tensor = [&](std::string_view component, std::string_view shape, double size) {
      return Json{{"moment", "before backward"},  {"attention", "naive"},   {"sequence", 1024},
                  {"component", component},       {"shape", shape},         {"formula", "4 B"},
                  {"predicted_bytes", predicted}, {"measured_bytes", size}, {"allocated_bytes", 200}};
    };
    return sentence({{StudyPart::accounting, {tensor("q", "B H S D", 100), tensor("scores", "B H S S", 100)}}},
                    "What does attention allocate");
  };
  EXPECT_THAT(account(100),
              AllOf(HasSubstr("50 % of it in 1 matrix of scores"), HasSubstr("the measured bytes exactly")));
  EXPECT_THAT(account(90), HasSubstr("10 % off the measured bytes"));
}

TEST(Answers, weigh_the_memory_of_variants_against_their_time) {
  const auto ladder = [](double flash_ms) {
    return sentence({{StudyPart::ladder,
                      {call("naive", 256, 1, 10), call("naive", 1024, 10, 1000), call("flash", 1024, flash_ms, 100)}}},
                    "What do variants save");
  };
  EXPECT_THAT(ladder(5), AllOf(HasSubstr("At 1024 tokens naive"), HasSubstr("10x less"), HasSubstr("2.00x as fast")));
  EXPECT_THAT(ladder(20), HasSubstr("2.00x as long"));
}

TEST(Answers, say_how_the_memory_of_tiled_attention_grows) {
  const auto flash = [](double last) {
    return sentence({{StudyPart::flash, {call("flash", 1024, 1, 100), call("flash", 4096, 9, last)}}},
                    "How far does tiled");
  };
  EXPECT_THAT(flash(400), AllOf(HasSubstr("At 4096 tokens"), HasSubstr("linearly")));
  EXPECT_THAT(flash(1600), AllOf(HasSubstr("to the power 2.00."), Not(HasSubstr("linearly"))));
}

TEST(Answers, say_what_compiling_attention_gains) {
  const auto compiled = [](double first, double last) {
    return answer({{StudyPart::compiled_attention,
                    {call("composite", 256, 10, 1), call("composite", 256, first, 1, "full"),
                     call("composite", 1024, 10, 1), call("composite", 1024, last, 1, "full")}}},
                  "What does compiling attention");
  };
  EXPECT_THAT(compiled(5, 5).sentence, HasSubstr("forward is 2.00x as fast (faster in every row)"));
  EXPECT_EQ(compiled(5, 5).elsewhere.at(0).verdict, Verdict::confirmed);
  EXPECT_THAT(compiled(20, 20).sentence, HasSubstr("slower in every row"));
  EXPECT_EQ(compiled(20, 20).elsewhere.at(0).verdict, Verdict::contradicted);
  EXPECT_THAT(compiled(20, 5).sentence, HasSubstr("faster in some rows and slower in others"));
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
            "On 2 ranks, each with the batch of one, a step of small keeps 92 % of the speed of one rank (most of the "
            "loss is communication that nothing hides).");
  EXPECT_EQ(of(ranks_row("none", 100, 80, 0.95, 1000)),
            "On 2 ranks, each with the batch of one, a step of small keeps 80 % of the speed of one rank (most of the "
            "loss is not exposed communication: the ranks share other resources).");
  EXPECT_EQ(of(ranks_row("none", 100, 101, 1, 1000)),
            "On 2 ranks, each with the batch of one, a step of small keeps 101 % of the speed of one rank.");
  EXPECT_EQ(answer({{StudyPart::ranks, {ranks_row("optimizer", 1, 1, 1, 1)}}}, "How much of its speed").missing,
            StudyPart::ranks);
}

TEST(Answers, weigh_sharding) {
  const auto of = [](const Json& sharded) {
    return sentence({{StudyPart::ranks, {ranks_row("none", 100, 95, 0.9, 4096), sharded}}}, "What does dividing");
  };
  EXPECT_EQ(of(ranks_row("parameters", 120, 95, 0.9, 1024)),
            "Of small, 'parameters' has the lowest peak: 1.0 KiB instead of 4.0 KiB (75 % less), for a step that takes "
            "1.20x as long.");
  EXPECT_THAT(of(ranks_row("optimizer", 100, 95, 0.9, 2048)), HasSubstr("1.00x as long, which is within the noise."));
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
      "By the bandwidth of a link of a ring: all_reduce 330.00 GB/s (73 % of the link) at 1.0 GiB, and 12.0 us at "
      "1.0 KiB.");
  Json without_link = row(1 << 20, 300, 3, 0, 2);
  without_link.erase("link_share");
  EXPECT_EQ(
      of(without_link),
      "By the bandwidth of a link of a ring: all_reduce 3.00 GB/s at 1.0 MiB, and 12.0 us at 1.0 KiB. 2 elements of "
      "the results are wrong.");
}

}  // namespace
}  // namespace ridgepoint
