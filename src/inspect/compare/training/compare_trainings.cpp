#include "inspect/compare/training/compare_trainings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/normal_quantile.h"
#include "core/same_bits.h"
#include "core/text/throw_error.h"
#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

using train::StepReport;

constexpr auto kVerdictNames = enum_names<LossVerdict>("identical", "rounding", "indistinguishable", "lower", "higher",
                                                       "not_finite", "cannot_tell");
constexpr std::int64_t kShareOfLast = 10;
constexpr std::int64_t kLeastLast = 20;

struct Pair {
  const StepReport* baseline;
  const StepReport* other;
};

std::vector<Pair> common_steps(std::span<const StepReport> baseline, std::span<const StepReport> other) {
  std::vector<Pair> pairs;
  for (auto a = baseline.begin(), b = other.begin(); a != baseline.end() && b != other.end();) {
    if (a->step == b->step) pairs.push_back({&*a, &*b});
    const std::int64_t step = std::min(a->step, b->step);
    if (a->step == step) ++a;
    if (b != other.end() && b->step == step) ++b;
  }
  return pairs;
}

bool is_same_to_the_bit(double a, double b) { return have_same_bits(a, b) || (std::isnan(a) && std::isnan(b)); }

// Two-sided: Student's t with so many degrees of freedom is within it with this probability. The expansion is 26.7.5 of
// Abramowitz & Stegun, whose error is below 1 % from 7 degrees on.
double student_limit(double confidence, double degrees) {
  const double z = normal_quantile((1 + confidence) / 2), cube = z * z * z, fifth = cube * z * z;
  return z + (cube + z) / (4 * degrees) + (5 * fifth + 16 * cube + 3 * z) / (96 * degrees * degrees);
}

using Figure = double (*)(const StepReport&);

double mean_of(std::span<const Pair> pairs, const StepReport* Pair::*side, Figure figure) {
  double sum = 0;
  for (const Pair& pair : pairs) sum += figure(*(pair.*side));
  return sum / static_cast<double>(pairs.size());
}

FigurePair means_of(std::span<const Pair> pairs, Figure figure) {
  const auto known = [](double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; };
  return {known(mean_of(pairs, &Pair::baseline, figure)), known(mean_of(pairs, &Pair::other, figure))};
}

double loss_of(const StepReport& step) { return step.loss; }
double norm_of(const StepReport& step) { return step.gradient_norm.value_or(std::nan("")); }

void compare_every_step(std::span<const Pair> pairs, ComparedTraining& row) {
  for (const Pair& pair : pairs) {
    const double a = pair.baseline->loss, b = pair.other->loss;
    if (pair.baseline->first_sequence != pair.other->first_sequence || pair.baseline->tokens != pair.other->tokens)
      row.has_same_sequences = false;
    if (is_same_to_the_bit(a, b)) continue;
    if (!row.first_difference) row.first_difference = pair.other->step;
    const double share = std::abs(b - a) / std::abs(a);
    row.largest_difference = std::isfinite(share) ? std::max(row.largest_difference, share) : INFINITY;
  }
}

// The final losses. Neighbouring steps have nearly the same parameters, so their differences may be correlated, and the
// interval is then wider.
void compare_last(std::span<const Pair> pairs, double confidence, ComparedTraining& row) {
  row.last = std::ssize(pairs);
  row.loss = means_of(pairs, loss_of);
  row.gradient_norm = means_of(pairs, norm_of);
  std::vector<double> differences;
  for (const Pair& pair : pairs) differences.push_back(pair.other->loss - pair.baseline->loss);
  if (!std::ranges::all_of(differences, [](double value) { return std::isfinite(value); })) return;
  const auto n = static_cast<double>(differences.size());
  const Statistics found = describe(differences);
  row.difference = found.mean;
  if (differences.size() < kLeastSteps) return;
  const double correlation = serial_correlation(differences);
  row.standard_error = found.std / std::sqrt(n) * std::sqrt((1 + correlation) / (1 - correlation));
  const double reach = student_limit(confidence, n - 1) * row.standard_error;
  row.interval = TimeRatio::Interval{row.difference - reach, row.difference + reach};
}

LossVerdict judge(const ComparedTraining& row) {
  if (!row.first_difference) return LossVerdict::identical;
  if (row.largest_difference <= kRoundingOfLosses) return LossVerdict::rounding;
  if (!row.loss.baseline || !row.loss.other) return LossVerdict::not_finite;
  if (!row.interval) return LossVerdict::cannot_tell;
  if (row.interval->high < 0) return LossVerdict::lower;
  return row.interval->low > 0 ? LossVerdict::higher : LossVerdict::indistinguishable;
}

void compare_validation(std::span<const Pair> pairs, ComparedTraining& row) {
  for (const Pair& pair : pairs) {
    if (!pair.baseline->validation_loss || !pair.other->validation_loss) continue;
    row.validation_step = pair.other->step;
    row.validation_loss = {pair.baseline->validation_loss, pair.other->validation_loss};
  }
}

void compare_speed(std::span<const Pair> pairs, const CompareOptions& options, ComparedTraining& row) {
  std::vector<double> baseline, other;  // ms of a token
  constexpr double kMs = 1000;
  for (const Pair& pair : pairs) {
    if (pair.baseline->tokens_per_second <= 0 || pair.other->tokens_per_second <= 0) continue;
    baseline.push_back(kMs / pair.baseline->tokens_per_second);
    other.push_back(kMs / pair.other->tokens_per_second);
  }
  if (baseline.empty()) return;
  row.tokens_per_second = {kMs / describe(baseline).median, kMs / describe(other).median};
  row.time = ratio_of_medians(baseline, other, options.confidence);
  row.time_verdict = ridgepoint::judge(*row.time, options.same_within);
}

// Empty where the loss is never reached.
std::optional<std::pair<double, double>> steps_and_seconds_to(std::span<const StepReport> steps, double target,
                                                              std::size_t last) {
  constexpr double kRoundingOfSums = 1e-12;
  double sum = 0, seconds = 0;
  std::size_t begin = 0;  // of the losses in the sum
  for (std::size_t i = 0; i < steps.size(); ++i) {
    seconds += steps[i].seconds;
    if (!std::isfinite(steps[i].loss)) {
      sum = 0;
      begin = i + 1;
      continue;
    }
    sum += steps[i].loss;
    if (i + 1 - begin > last) sum -= steps[begin++].loss;
    if (i + 1 - begin == last && sum / static_cast<double>(last) <= target * (1 + kRoundingOfSums))
      return std::pair(static_cast<double>(steps[i].step), seconds);
  }
  return std::nullopt;
}

void compare_times_to_loss(std::span<const StepReport> baseline, std::span<const StepReport> other,
                           std::optional<double> target, ComparedTraining& row) {
  if (!target && row.loss.baseline && row.loss.other) target = std::max(*row.loss.baseline, *row.loss.other);
  if (!target) return;
  row.target_loss = *target;
  const auto last = static_cast<std::size_t>(row.last);
  if (const auto found = steps_and_seconds_to(baseline, *target, last))
    std::tie(row.steps_to_loss.baseline, row.seconds_to_loss.baseline) = *found;
  if (const auto found = steps_and_seconds_to(other, *target, last))
    std::tie(row.steps_to_loss.other, row.seconds_to_loss.other) = *found;
}

std::string range_of(std::span<const StepReport> steps) {
  return fmt::format("steps {} to {}", steps.front().step, steps.back().step);
}

void require_same_data(const RecordFile& baseline, const RecordFile& file) {
  const std::string &a = baseline.history.steps.front().data, &b = file.history.steps.front().data;
  if (a.empty() || b.empty() || a == b) return;
  throw_error(
      "'{}' was trained on other data than '{}' (their fingerprints are {} and {}), so their losses "
      "are not comparable; train both with the same --data, --validation-share and --context",
      file.path, baseline.path, b, a);
}

ComparedTraining compare(const RecordFile& baseline, const RecordFile& file, const TrainingCompareOptions& options,
                         std::vector<std::string>& warnings) {
  require_same_data(baseline, file);
  const std::span<const StepReport> before = baseline.history.steps, after = file.history.steps;
  const std::vector<Pair> pairs = common_steps(before, after);
  if (pairs.empty())
    throw_error("'{}' has {}, and '{}' {}: they have no step in common", baseline.path, range_of(before), file.path,
                range_of(after));
  ComparedTraining row{.file = file.path,
                       .common_steps = std::ssize(pairs),
                       .first_step = pairs.front().other->step,
                       .last_step = pairs.back().other->step};
  const std::int64_t wanted = options.last > 0 ? options.last : std::max(kLeastLast, row.common_steps / kShareOfLast);
  const auto last = std::span(pairs).last(static_cast<std::size_t>(std::min(wanted, row.common_steps)));
  compare_every_step(pairs, row);
  compare_last(last, options.of_times.confidence, row);
  row.verdict = judge(row);
  compare_validation(pairs, row);
  compare_speed(pairs, options.of_times, row);
  const auto peak_of = [](const StepReport* step) {
    return step->peak_allocated_bytes > 0 ? std::optional(static_cast<double>(step->peak_allocated_bytes))
                                          : std::nullopt;
  };
  row.peak_allocated_bytes = {peak_of(pairs.back().baseline), peak_of(pairs.back().other)};
  compare_times_to_loss(before, after, options.target_loss, row);
  if (pairs.back().baseline->tokens != pairs.back().other->tokens) {
    warnings.push_back(fmt::format("'{}' has read {} tokens at step {}, and '{}' {}; losses are compared step by step",
                                   file.path, pairs.back().other->tokens, row.last_step, baseline.path,
                                   pairs.back().baseline->tokens));
  }
  return row;
}

}  // namespace

std::string_view name(LossVerdict verdict) { return kVerdictNames[verdict]; }

bool ComparedTraining::has_loss_worse_by(double share) const {
  if (verdict == LossVerdict::not_finite) return loss.baseline.has_value();
  return loss.baseline && interval && interval->low > share * std::abs(*loss.baseline);
}

std::optional<double> ComparedTraining::memory_ratio() const {
  const auto& [before, after] = peak_allocated_bytes;
  return before && after ? std::optional(*after / *before) : std::nullopt;
}

TrainingComparison compare_trainings(std::span<const RecordFile> files, const TrainingCompareOptions& options) {
  for (const RecordFile& file : files) {
    if (file.history.steps.empty())
      throw_error("'{}' has records, and another file the steps of a training; compare either", file.path);
  }
  if (files.size() < 2) throw Error("comparing trainings needs the steps of two; give a second file or folder");
  TrainingComparison comparison{options, files.front().path, {}, {}};
  for (const RecordFile& file : files.subspan(1))
    comparison.rows.push_back(compare(files.front(), file, options, comparison.warnings));
  return comparison;
}

}  // namespace ridgepoint
