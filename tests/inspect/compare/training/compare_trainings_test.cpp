
#include <cmath>
#include <functional>

#include "inspect/compare/noise.h"
#include "inspect/compare/training/compare_trainings.h"
#include "inspect/compare/training/training_table.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "tables/table/render.h"

namespace ridgepoint {
namespace {

using train::StepReport;

// A loss falls from 4 to 2 in `steps` steps; what a batch adds to it is the same in every run that reads the batch.
RecordFile training(const std::string& path, std::int64_t steps, const std::function<void(StepReport&)>& change = {}) {
  RecordFile file{.path = path};
  Noise of_batches(7);
  for (std::int64_t step = 1; step <= steps; ++step) {
    StepReport report{.step = step,
                      .loss = 2 + 2 * std::exp(-5.0 * static_cast<double>(step) / static_cast<double>(steps)),
                      .learning_rate = 1e-3,
                      .seconds = 0.5,
                      .tokens_per_second = 1000,
                      .peak_allocated_bytes = 1 << 20,
                      .tokens = 500 * step,
                      .first_sequence = (17 * step) % 100,
                      .data = "d"};
    report.loss *= 1 + 0.05 * of_batches.normal();
    if (change) change(report);
    file.history.steps.push_back(report);
  }
  return file;
}

TrainingComparison compared(const RecordFile& a, const RecordFile& b, const TrainingCompareOptions& options = {}) {
  return compare_trainings(std::vector{a, b}, options);
}

ComparedTraining row_of(const RecordFile& a, const RecordFile& b, const TrainingCompareOptions& options = {}) {
  return compared(a, b, options).rows.at(0);
}

std::string error_of(const std::vector<RecordFile>& files) {
  try {
    compare_trainings(files, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CompareTrainings, says_that_losses_are_the_same_to_the_bit_or_within_rounding) {
  const RecordFile a = training("a", 100);
  const ComparedTraining same = row_of(a, a);
  EXPECT_EQ(same.verdict, LossVerdict::identical);
  EXPECT_FALSE(same.first_difference);
  EXPECT_EQ(same.common_steps, 100);
  EXPECT_EQ(same.last, 20);
  const ComparedTraining rounded = row_of(a, training("b", 100, [](StepReport& step) {
                                            if (step.step > 30) step.loss = std::nextafter(step.loss, 9);
                                          }));
  EXPECT_EQ(rounded.verdict, LossVerdict::rounding);
  EXPECT_EQ(rounded.first_difference, 31);
  EXPECT_LT(rounded.largest_difference, 1e-15);
}

TEST(CompareTrainings, what_batches_add_to_both_cancels_out) {
  // The batches move a loss by 5 %, and the runs differ by 0.5 %.
  const RecordFile a = training("a", 200);
  Noise noise(3);
  const auto changed = [&](double factor) {
    return training("b", 200, [&, factor](StepReport& step) { step.loss *= factor * (1 + 0.001 * noise.normal()); });
  };
  const ComparedTraining lower = row_of(a, changed(0.995));
  EXPECT_EQ(lower.verdict, LossVerdict::lower);
  EXPECT_NEAR(lower.difference / *lower.loss.baseline, -0.005, 0.001);
  EXPECT_NEAR(lower.standard_error / *lower.loss.baseline, 0.001 / std::sqrt(20), 0.0001);
  EXPECT_FALSE(lower.has_loss_worse_by(0));
  const ComparedTraining higher = row_of(a, changed(1.005));
  EXPECT_EQ(higher.verdict, LossVerdict::higher);
  EXPECT_TRUE(higher.has_loss_worse_by(0.003));
  EXPECT_FALSE(higher.has_loss_worse_by(0.01));
}

TEST(CompareTrainings, seldom_calls_runs_different_that_are_alike) {
  const RecordFile a = training("a", 200);
  int different = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Noise noise(seed);
    const ComparedTraining row =
        row_of(a, training("b", 200, [&](StepReport& step) { step.loss *= 1 + 0.002 * noise.normal(); }));
    if (row.verdict != LossVerdict::indistinguishable) ++different;
  }
  EXPECT_LE(different, 6);  // 2 of 200 at 99 %
}

TEST(CompareTrainings, compares_speed_memory_validation_and_time_to_a_loss) {
  const auto evaluated = [](StepReport& step) {
    if (step.step % 50 == 0) step.validation_loss = 3.0 - static_cast<double>(step.step) / 100;
    step.gradient_norm = 2;
  };
  const RecordFile a = training("a", 100, evaluated);
  const RecordFile b = training("b", 100, [&](StepReport& step) {
    evaluated(step);
    step.loss *= 0.9;
    step.seconds = 0.25;
    step.tokens_per_second = 2000;
    step.peak_allocated_bytes = 3 << 19;
    if (step.step == 100) step.validation_loss.reset();
  });
  const ComparedTraining row = row_of(a, b);
  EXPECT_EQ(row.tokens_per_second.other, 2000);
  EXPECT_EQ(row.time_verdict, Verdict::faster);
  EXPECT_DOUBLE_EQ(row.time->ratio, 0.5);
  EXPECT_EQ(row.memory_ratio(), 1.5);
  EXPECT_EQ(row.validation_step, 50);
  EXPECT_EQ(row.validation_loss.other, 2.5);
  EXPECT_EQ(row.gradient_norm.baseline, 2);
  EXPECT_LE(*row.steps_to_loss.baseline, 100);  // the baseline has the higher final loss
  EXPECT_LT(*row.steps_to_loss.other, *row.steps_to_loss.baseline);
  EXPECT_EQ(*row.seconds_to_loss.other, 0.25 * *row.steps_to_loss.other);
  const ComparedTraining never = row_of(a, b, {.target_loss = 1.0});
  EXPECT_FALSE(never.seconds_to_loss.baseline);
}

TEST(CompareTrainings, a_loss_that_is_not_finite_is_worse) {
  const RecordFile a = training("a", 100);
  const RecordFile broken = training("b", 100, [](StepReport& step) {
    if (step.step == 95) step.loss = NAN;
  });
  EXPECT_EQ(row_of(a, broken).verdict, LossVerdict::not_finite);
  EXPECT_TRUE(row_of(a, broken).has_loss_worse_by(10));
  EXPECT_FALSE(row_of(broken, a).has_loss_worse_by(0));
  EXPECT_EQ(row_of(broken, broken).verdict, LossVerdict::identical);
}

TEST(CompareTrainings, compares_the_steps_that_both_have) {
  const RecordFile a = training("a", 100);
  RecordFile resumed = a;
  resumed.history.steps.erase(resumed.history.steps.begin(), resumed.history.steps.begin() + 95);
  const ComparedTraining row = row_of(a, resumed);
  EXPECT_EQ(row.first_step, 96);
  EXPECT_EQ(row.common_steps, 5);
  EXPECT_EQ(row.verdict, LossVerdict::identical);
  for (StepReport& step : resumed.history.steps) step.loss *= 1.1;
  EXPECT_EQ(row_of(a, resumed).verdict, LossVerdict::cannot_tell);
  RecordFile first = a;
  first.history.steps.resize(50);
  EXPECT_EQ(error_of({first, resumed}), "'a' has steps 1 to 50, and 'a' steps 96 to 100: they have no step in common");
}

TEST(CompareTrainings, refuses_other_data_and_says_what_else_differs) {
  const RecordFile a = training("a", 100);
  const RecordFile foreign = training("b", 100, [](StepReport& step) { step.data = "e"; });
  EXPECT_THAT(error_of({a, foreign}), HasSubstr("'b' was trained on other data than 'a'"));
  EXPECT_THAT(error_of({a}), HasSubstr("needs the steps of two"));
  EXPECT_THAT(error_of({a, RecordFile{.path = "r"}}), HasSubstr("'r' has records"));
  const TrainingComparison larger = compared(a, training("b", 100, [](StepReport& step) { step.tokens *= 2; }));
  ASSERT_THAT(larger.warnings, SizeIs(1));
  EXPECT_THAT(larger.warnings[0], HasSubstr("has read 100000 tokens at step 100, and 'a' 50000"));
  EXPECT_FALSE(larger.rows[0].has_same_sequences);
}

TEST(TrainingTable, has_a_row_a_training_in_files_and_a_row_a_figure_for_people) {
  const RecordFile a = training("a", 100);
  const TrainingComparison comparison = compared(a, training("b", 100, [](StepReport& step) { step.loss *= 0.9; }));
  const Json rows = tables::to_json(tables::training_page(comparison, tables::Format::json).tables.at(0));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].at("verdict"), "lower");
  EXPECT_EQ(rows[0].at("baseline_file"), "a");
  EXPECT_TRUE(rows[0].at("validation_loss").is_null());
  const std::string text =
      tables::render(tables::Format::table, tables::training_page(comparison, tables::Format::table));
  for (const char* part : {"b compared with a: 100 common steps", "loss, last 20 steps", "lower", "(-10.00%)",
                           "99% interval", "first step that differs", "peak memory", "same within 1%"})
    EXPECT_THAT(text, HasSubstr(part));
}

}  // namespace
}  // namespace ridgepoint
