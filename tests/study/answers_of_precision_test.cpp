// The answers about the types of sums, of modules under autocast, and the errors of types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ridgepoint
