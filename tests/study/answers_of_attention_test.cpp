// The answers about attention alone: its time and memory by length and variant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "study/answer_rows.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using testing::answer;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::sentence;
using Verdict = StudyClaim::Verdict;

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

TEST(Answers, need_a_sequence_to_compare_variants) {
  for (const Json& context : {Json(-1), Json(0), Json(nullptr), Json("long")}) {
    Json row = call("naive", 256, 1, 10);
    row["context"] = context;
    const std::string found = sentence({{StudyPart::ladder, {row}}}, "What do variants save");
    EXPECT_EQ(found.starts_with("This study cannot say"), context != 0) << context;
  }
  Json huge = call("naive", 256, 1, 10);
  huge["context"] = 1e300;
  EXPECT_THAT(sentence({{StudyPart::ladder, {huge}}}, "What do variants save"), HasSubstr("At 1e+300 tokens"));
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

}  // namespace
}  // namespace ridgepoint
