// The times of forward, backward and a step; the effects of size, number type and context; and how reliable the times
// are: the spread of iterations, and the effect of a warm-up.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "record/columns.h"
#include "ridgepoint/record/record.h"
#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kStepsTopic = "Training steps";

// The rows of one mode and type, the smallest model first; those that have the batch and context of the first.
Rows by_size(const PartRows& rows, const char* mode, const char* dtype) {
  const Rows all = rows_of(rows, StudyPart::sizes, {{"mode", mode}, {"dtype", dtype}});
  if (all.empty()) return {};
  return sorted_by(rows_like(all, *all.front(), {"batch", "context"}), "model.parameters");
}

StudyAnswer times_by_size(const PartRows& rows) {
  StudyAnswer answer{kStepsTopic, "How long do a forward pass and a training step take, by size?"};
  const Rows forwards = by_size(rows, "forward", "fp32");
  if (forwards.empty()) return unanswered(answer, StudyPart::sizes);
  Rows all = rows_of(rows, StudyPart::sizes);
  const Rows failed = too_large(rows, StudyPart::sizes);
  all.insert(all.end(), failed.begin(), failed.end());
  for (const std::string& model : texts_of(all, "model.name")) {
    for (const std::string& dtype : texts_of(all, "dtype")) {
      std::vector<std::string> figures;
      for (const char* mode : {"forward", "forward_backward", "step"}) {
        const Json* row = first_of(all, {{"model.name", model}, {"dtype", dtype}, {"mode", mode}});
        if (row == nullptr) continue;
        const char* what = mode == std::string_view("forward_backward") ? "forward and backward" : mode;
        figures.push_back(text_at(*row, "status") == "oom"
                              ? fmt::format("{} does not fit (planned peak {})", what, bytes_at(*row, kPlannedPeak))
                              : fmt::format("{} {}", what, ms_at(*row, kMedian)));
      }
      if (!figures.empty()) answer.add(StudyPart::sizes, "{}, {}: {}", model, dtype, fmt::join(figures, ", "));
    }
  }
  const Json& small = *forwards.front();
  const Json& large = *forwards.back();
  answer.say("On {}, a forward pass of {} takes {} in fp32 (batch {}, context {}).", text_at(small, "device.name"),
             text_at(small, "model.name"), ms_at(small, kMedian), number_at(small, "batch"),
             number_at(small, "context"));
  const double more = number_at(large, "model.parameters") / number_at(small, "model.parameters");
  if (&small == &large || !(more > 1)) return answer;
  const double growth = number_at(large, kMedian) / number_at(small, kMedian);
  answer.say("A forward pass of {} takes {}: {} as long with {} the parameters, so the time grows {} the parameters.",
             text_at(large, "model.name"), ms_at(large, kMedian), times(growth), times(more),
             growth > 1.15 * more   ? "faster than"
             : growth < more / 1.15 ? "more slowly than"
                                    : "about as fast as");
  return answer;
}

StudyAnswer backward_over_forward(const PartRows& rows) {
  StudyAnswer answer{kStepsTopic, "How long is backward against forward?"};
  const Rows all = rows_of(rows, StudyPart::sizes);
  std::vector<double> backward, operations, rates;
  std::vector<double> both;       // over forward
  std::optional<Range> interval;  // of all
  bool has_intervals = true;
  std::string in_doubt;
  const Json* first = nullptr;
  for (const auto& [forward, pair] :
       pairs_of(all, {{"mode", "forward"}, {"dtype", "fp32"}}, {{"mode", "forward_backward"}, {"dtype", "fp32"}},
                {"model.name", "batch", "context"})) {
    const double ratio = number_at(*pair, "phase_ms.backward") / number_at(*pair, "phase_ms.forward");
    answer.add(StudyPart::sizes, "{}: forward {}, backward {}, ratio {}", workload(*pair),
               ms_at(*pair, "phase_ms.forward"), ms_at(*pair, "phase_ms.backward"), times(ratio));
    if (has(ratio)) backward.push_back(ratio);
    const double more = number_at(*pair, "flops_per_step") / number_at(*forward, "flops_per_step") - 1;
    if (has(more / ratio)) operations.push_back(more), rates.push_back(more / ratio);
    const Speedup against_both = speedup(*pair, *forward);
    if (first == nullptr) first = forward;
    if (in_doubt.empty()) in_doubt = against_both.doubt;
    has_intervals &= against_both.interval.has_value();
    both.push_back(against_both.ratio);
    const Range range = against_both.interval.value_or(exactly(against_both.ratio));
    interval = interval ? Range{std::min(interval->low, range.low), std::max(interval->high, range.high)} : range;
  }
  if (backward.empty() || !has(both.front())) return unanswered(answer, StudyPart::sizes);
  const auto range_of = [](const std::vector<double>& values) {
    const auto [least, most] = std::ranges::minmax(values);
    return Range{least, most};
  };
  answer.say("Backward takes {} as long as forward{}{}.", times(range_of(backward)),
             backward.size() == 1 ? "" : " over the sizes", in_doubt);
  if (!rates.empty())
    answer.say("It has {} the operations, so it computes at {} the rate of forward.", times(range_of(operations)),
               times(range_of(rates)));
  judge(answer,
        {.source = "unnamed_card",
         .text = "Forward and backward together take about 3 times a forward pass.",
         .figures = {{2.5, 3.5}},
         .of = {{"batch", 4}, {"context", 256}}},
        *first,
        {.figures = {has_intervals ? interval : std::nullopt},
         .text = fmt::format("they take {}", times(range_of(both))),
         .doubt = in_doubt});
  return answer;
}

StudyAnswer low_precision(const PartRows& rows) {
  StudyAnswer answer{kStepsTopic, "What does bf16 gain over fp32, and how does that depend on size?"};
  const Rows all = sorted_by(rows_of(rows, StudyPart::sizes), "model.parameters");
  std::vector<std::pair<const Json*, Speedup>> gains;  // of forward passes, the smallest model first
  for (const auto& [full, low] :
       pairs_of(all, {{"dtype", "fp32"}}, {{"dtype", "bf16"}}, {"mode", "model.name", "batch", "context"})) {
    const Speedup gain = speedup(*full, *low);
    answer.add(StudyPart::sizes, "{}, {}: fp32 {}, bf16 {}; bf16 is {}", text_at(*full, "model.name"),
               text_at(*full, "mode"), ms_at(*full, kMedian), ms_at(*low, kMedian), words(gain));
    if (text_at(*full, "mode") == "forward" && has(gain.ratio)) gains.emplace_back(full, gain);
  }
  if (gains.empty()) return unanswered(answer, StudyPart::sizes);
  const auto model_of = [](const auto& gain) { return text_at(*gain.first, "model.name"); };
  const auto& [small, of_small] = gains.front();
  answer.say("In bf16 instead of fp32 a forward pass of {} is {}.", model_of(gains.front()), words(of_small));
  if (gains.size() == 1) return answer;
  const Speedup& of_large = gains.back().second;
  const bool is_known = of_small.interval && of_large.interval;
  answer.say("Of {} it is {}.", model_of(gains.back()), words(of_large));
  answer.say("{}", !is_known ? "There are too few iterations to compare the gains."
                   : of_large.interval->low > of_small.interval->high ? "So the gain is larger for the larger model."
                   : of_large.interval->high < of_small.interval->low ? "So the gain is smaller for the larger model."
                                                                      : "The noise hides a difference of the gains.");
  // The source has xl as its second model.
  const auto xl = std::ranges::find_if(gains, [&](const auto& gain) { return model_of(gain) == "xl"; });
  const auto& compared = xl == gains.end() ? gains.back() : *xl;
  judge(answer,
        {.source = "unnamed_card",
         .text = "bf16 makes a forward pass 1.73x as fast for small and 2.75x for xl: the gain grows with size.",
         .figures = {{1.64, 1.82}, {2.61, 2.89}},
         .of = {{"model.name", "small"}, {"batch", 4}, {"context", 256}}},
        *small,
        {.figures = {of_small.interval, compared.second.interval},
         .text = fmt::format("the gain is {} for {} and {} for {}", times(of_small.ratio), model_of(gains.front()),
                             times(compared.second.ratio), model_of(compared)),
         .doubt = of_small.doubt.empty() ? compared.second.doubt : of_small.doubt,
         .differences = {xl == gains.end() ? fmt::format("another model ({}, not xl)", model_of(compared)) : ""}});
  return answer;
}

StudyAnswer contexts(const PartRows& rows) {
  StudyAnswer answer{kStepsTopic, "How does the time grow with the context length?"};
  for (const char* mode : {"forward", "step"}) {
    Rows of_mode = rows_of(rows, StudyPart::contexts, {{"mode", mode}});
    if (of_mode.empty()) continue;
    of_mode = sorted_by(rows_like(of_mode, *of_mode.front(), {"model.name", "dtype", "batch"}), "context");
    std::vector<std::pair<double, double>> points, operations;
    for (const Json* row : of_mode) {
      points.emplace_back(number_at(*row, "context"), number_at(*row, kMedian));
      operations.emplace_back(points.back().first, number_at(*row, "flops_per_step"));
      answer.add(StudyPart::contexts, "{}, {}: {}", workload(*row), mode, ms_at(*row, kMedian));
    }
    // The first two contexts and the last two: the exponent between the two ends would hold for no context.
    for (std::size_t at = 0; at + 1 < points.size(); at += std::max<std::size_t>(points.size() - 2, 1)) {
      const double power = exponent(std::span(points).subspan(at, 2));
      if (!has(power)) continue;
      const double of_operations = exponent(std::span(operations).subspan(at, 2));
      const std::string in_doubt = doubt(*of_mode[at]).empty() ? doubt(*of_mode[at + 1]) : doubt(*of_mode[at]);
      answer.say("From {} to {} tokens the time of {} grows with the context to the power {:.2f}{}{}.",
                 points[at].first, points[at + 1].first, pass_name(mode), power, in_doubt,
                 has(of_operations) ? fmt::format(", and its operations to the power {:.2f}", of_operations) : "");
    }
  }
  return answer.sentence.empty() ? unanswered(answer, StudyPart::contexts) : answer;
}

StudyAnswer spread(const PartRows& rows) {
  StudyAnswer answer{kStepsTopic, "How much do the iterations vary?"};
  const Rows all = rows_of(rows, StudyPart::sizes);
  const Json *worst = nullptr, *least_known = nullptr;
  double reach = 0;  // of the widest interval: its end that is further from the median, over the median, less 1
  std::size_t judged = 0, doubtful = 0;
  bool has_intervals = true;
  std::map<std::string, std::vector<std::string>> by_verdict;
  for (const Json* row : all) {
    const double cv = number_at(*row, "time_ms.cv");
    if (!has(cv)) continue;
    if (worst == nullptr || cv > number_at(*worst, "time_ms.cv")) worst = row;
    const std::optional<MedianInterval> interval = median_interval(samples_of(*row), kConfidence);
    has_intervals &= interval.has_value();
    if (interval) {
      const double below = std::max(interval->low, 0.0) / interval->median - 1,
                   above = interval->high / interval->median - 1;
      const double further = -below > above ? below : above;
      if (least_known == nullptr || std::abs(further) > std::abs(reach)) least_known = row, reach = further;
    }
    const std::string verdict = text_at(*row, "timing.verdict");
    judged += verdict.empty() ? 0 : 1;
    if (verdict.empty() || verdict == "steady") continue;
    ++doubtful;
    by_verdict[verdict].push_back(fmt::format("{}, {}", workload(*row), text_at(*row, "mode")));
  }
  if (worst == nullptr) return unanswered(answer, StudyPart::sizes);
  answer.say("The largest standard deviation is {} of the mean ({}, {}).", percent(number_at(*worst, "time_ms.cv")),
             workload(*worst), text_at(*worst, "mode"));
  if (!has_intervals) {
    answer.say("Some rows have too few iterations for an interval of their median.");
  } else {
    answer.say("The widest 95 % interval of a median ends {} {} the median ({}, {}).", percent(std::abs(reach)),
               reach < 0 ? "below" : "above", workload(*least_known), text_at(*least_known, "mode"));
  }
  if (judged > 0) {
    answer.say("{}", doubtful == 0        ? fmt::format("All {} rows that were judged are steady.", judged)
                     : doubtful == judged ? fmt::format("None of {} rows is steady.", judged)
                     : doubtful == 1      ? fmt::format("1 of {} rows is not steady.", judged)
                                          : fmt::format("{} of {} rows are not steady.", doubtful, judged));
  }
  for (const auto& [verdict, of_verdict] : by_verdict)
    answer.add(StudyPart::sizes, "{}: {}", verdict, fmt::join(of_verdict, "; "));
  return answer;
}

// The first timed iteration over the median of the others.
double first_over_others(const Json& row) {
  std::vector<double> samples = samples_of(row);
  if (samples.size() < 3) return std::nan("");
  const double first = samples.front();
  samples.erase(samples.begin());
  return first / describe(samples).median;
}

double squared_deviations(std::span<const double> samples) {
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += (sample - mean) * (sample - mean);
  return sum;
}

// The share of the variance that is due to the first iteration.
double first_share_of_spread(const Json& row) {
  const std::vector<double> samples = samples_of(row);
  const double all = squared_deviations(samples);
  return all > 0 ? 1 - squared_deviations(std::span(samples).subspan(1)) / all : 0;
}

std::string iterations_text(std::int64_t count) { return fmt::format("{} iteration{}", count, count == 1 ? "" : "s"); }

// How far the first iteration raises the mean: over the mean of the others, less 1.
double excess_of_mean(const Json& row) {
  const std::vector<double> samples = samples_of(row);
  const double all = std::accumulate(samples.begin(), samples.end(), 0.0);
  const auto count = static_cast<double>(samples.size());
  return (all / count) / ((all - samples.front()) / (count - 1)) - 1;
}

// The row of a process that timed its first call, and nothing else.
const Json* first_call_of(const PartRows& rows) {
  for (const Json* row : rows_of(rows, StudyPart::warmup)) {
    if (number_at(*row, "first_call_ms.total") > 0) return row;
  }
  return nullptr;
}

// What a part of a first call is, as docs/record.md has it; empty for an unknown one.
std::string_view about_part(const std::string& part) {
  const auto measures = record_measures();
  const auto found = std::ranges::find(measures, "first_call_ms." + part, &Measure::path);
  return found == measures.end() ? "" : found->about;
}

StudyAnswer first_iteration(const PartRows& rows) {
  StudyAnswer answer{kStepsTopic, "Why is the first iteration slow?"};
  const Json* row = first_call_of(rows);
  if (row == nullptr) return unanswered(answer, StudyPart::warmup);
  const double total = number_at(*row, "first_call_ms.total");
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [part, time] : field(*row, "first_call_ms").items()) {
    if (part != "total" && time.is_number() && time.get<double>() > 0) parts.emplace_back(time.get<double>(), part);
  }
  std::ranges::stable_sort(parts, std::greater(), &std::pair<double, std::string>::first);
  std::vector<std::string> largest;
  for (const auto& [time, part] : parts) {
    std::string words = part;
    std::ranges::replace(words, '_', ' ');
    const std::string figure = fmt::format("{} {} ({})", words, ms(time), percent(time / total));
    const std::string_view about = about_part(part);
    answer.add(StudyPart::warmup, "{}{}{}", figure, about.empty() ? "" : ": ", about);
    if (largest.size() < 3) largest.push_back(figure);
  }
  if (parts.empty()) return unanswered(answer, StudyPart::warmup);
  answer.say("From the start of the process to the end of {} of {} it takes {}. The largest parts are {}.",
             pass_name(text_at(*row, "mode")), workload(*row), ms(total), fmt::join(largest, ", "));
  const double first_run = number_at(*row, "first_call_ms.first_run");
  const Rows later = sorted_by(
      rows_like(rows_of(rows, StudyPart::warmup), *row, {"model.name", "mode", "batch", "context", "dtype"}), "warmup");
  const double usual = later.empty() ? std::nan("") : number_at(*later.back(), kMedian);
  if (first_run / usual > 0)
    answer.say("The first run itself takes {} the median of iterations behind a warm-up of {}, {}.",
               times(first_run / usual), number_at(*later.back(), "warmup"), ms_at(*later.back(), kMedian));
  if (field(*row, "cold_cache") == false) answer.say("The process did not begin with an empty cache of kernels.");
  return answer;
}

StudyAnswer warmup(const PartRows& rows) {
  StudyAnswer answer{kStepsTopic, "What does the warm-up change, and how much is enough?"};
  Rows all = sorted_by(rows_of(rows, StudyPart::warmup), "warmup");
  std::erase_if(all, [](const Json* row) { return !has(first_over_others(*row)); });
  const Json* cold = first_of(all, {{"warmup", 0}});
  if (cold == nullptr) return unanswered(answer, StudyPart::warmup);
  std::int64_t enough = -1;  // the least from which on the first iteration is like the others
  for (const Json* row : all) {
    if (!has(number_at(*row, "warmup"))) continue;
    const double first = first_over_others(*row);
    const auto warmup = static_cast<std::int64_t>(number_at(*row, "warmup"));
    answer.add(StudyPart::warmup,
               "{} of warm-up: mean {}, standard deviation {}, first iteration {} the median of the others",
               iterations_text(warmup), ms_at(*row, "time_ms.mean"), ms_at(*row, "time_ms.std"), times(first));
    const bool is_like = std::abs(first - 1) < 0.1;
    if (!is_like) enough = -1;
    if (enough < 0 && is_like) enough = warmup;
  }
  const double first = first_over_others(*cold);
  answer.say(
      "Without a warm-up the first iteration takes {} the median of the others, which puts the mean {} {} the "
      "mean of the others.",
      times(first), percent(std::abs(excess_of_mean(*cold))), excess_of_mean(*cold) < 0 ? "below" : "above");
  answer.say("{}", enough == 0  ? "It is within 10 % of the others with every warm-up that was measured."
                   : enough > 0 ? fmt::format("From {} of warm-up on the first timed one is within 10 % of the others.",
                                              iterations_text(enough))
                                : "No measured warm-up brings the first timed one reliably within 10 % of the others.");
  const Rows like =
      rows_like(rows_of(rows, StudyPart::sizes), *cold, {"model.name", "mode", "batch", "context", "dtype"});
  const std::vector<double> of_warmup = like.empty() ? std::vector<double>() : samples_of(*like.front(), "warmup_ms");
  if (!of_warmup.empty())
    answer.say("In the process that measured 'sizes' the first iteration of the same pass takes {}, {} the median.",
               ms(of_warmup.front()), times(of_warmup.front() / number_at(*like.front(), kMedian)));
  const double share = first_share_of_spread(*cold);
  // Dominates: it takes a tenth longer, and makes half of the variance.
  judge(answer,
        {.source = "unnamed_card",
         .text = "Without a warm-up the first step dominates the spread.",
         .figures = {{1.1, 1e9}, {0.5, 1}},
         .of = {{"model.name", "2.35b"}, {"batch", 4}, {"context", 256}}},
        *cold,
        {.figures = {exactly(first), exactly(share)},
         .text = fmt::format("it takes {} as long as the others, and makes {} of the variance", times(first),
                             percent(share))});
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_steps(const PartRows& rows) {
  return {times_by_size(rows),   backward_over_forward(rows), spread(rows),  warmup(rows),
          first_iteration(rows), low_precision(rows),         contexts(rows)};
}

}  // namespace ridgepoint::answers
