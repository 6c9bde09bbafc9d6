// Compares the losses, the speed and the memory of trainings by the steps that both have.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/compare/compare_records.h"

namespace ridgepoint {

// The verdict on the losses of two trainings. identical: the losses of every step have the same bits. rounding: the
// losses of every step differ by at most the share kRoundingOfLosses. lower, higher: the whole interval of the
// difference is on this side of 0; otherwise indistinguishable. not_finite: one of the last losses is NaN or infinite.
// cannot_tell: too few steps for an interval.
enum class LossVerdict : std::uint8_t {
  identical,
  rounding,
  indistinguishable,
  lower,
  higher,
  not_finite,
  cannot_tell
};
std::string_view name(LossVerdict verdict);

inline constexpr double kRoundingOfLosses = 1e-5;
inline constexpr std::size_t kLeastSteps = 8;  // for an interval

struct TrainingCompareOptions {
  CompareOptions of_times = {};            // the confidence is that of losses, too
  std::int64_t last = 0;                   // the steps of a final loss; 0: a tenth of the common ones, at least 20
  std::optional<double> target_loss = {};  // empty: the higher of the two final losses
};

// A figure of the baseline and of the other training.
struct FigurePair {
  std::optional<double> baseline, other;
};

struct ComparedTraining {
  std::string file;
  std::int64_t common_steps = 0;
  std::int64_t first_step = 0, last_step = 0;         // of the common ones
  bool has_same_sequences = true;                     // every common step has read the same sequences in both
  std::optional<std::int64_t> first_difference = {};  // the first step whose losses differ
  double largest_difference = 0;                      // of the losses of a step, as a share
  std::int64_t last = 0;                              // the steps of the final losses
  // The means of the last losses; the mean of the differences step by step, with its standard error and its interval.
  FigurePair loss = {};
  double difference = 0;
  double standard_error = 0;
  std::optional<TimeRatio::Interval> interval = {};
  LossVerdict verdict = LossVerdict::cannot_tell;
  std::optional<std::int64_t> validation_step = {};  // the last one in which both have evaluated
  FigurePair validation_loss = {};
  FigurePair gradient_norm = {};       // means over the same steps as the losses
  FigurePair tokens_per_second = {};   // medians
  std::optional<TimeRatio> time = {};  // of the times of a token
  Verdict time_verdict = Verdict::cannot_tell;
  FigurePair peak_allocated_bytes = {};
  // When the mean of so many losses first reaches the target; empty if it never does.
  double target_loss = 0;
  FigurePair steps_to_loss = {}, seconds_to_loss = {};

  // Whether the loss is above the baseline's by more than this share of it, beyond doubt.
  bool has_loss_worse_by(double share) const;
  std::optional<double> memory_ratio() const;
};

struct TrainingComparison {
  TrainingCompareOptions options;
  std::string baseline_file;
  std::vector<ComparedTraining> rows;
  std::vector<std::string> warnings;
};

// Compares the others with the first. Throws Error for fewer than two, for a file of records among them, and for
// trainings on other data or without a common step.
TrainingComparison compare_trainings(std::span<const RecordFile> files, const TrainingCompareOptions& options);

}  // namespace ridgepoint
