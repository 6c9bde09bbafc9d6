// How sure the times are: the spread of the iterations, and what a warm-up changes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

#include "study/answers/rows.h"
#include "study/answers/topics.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kVariationTopic = "Training steps";

StudyAnswer spread(const StudyRows& rows) {
  const char* question = "How much do the iterations vary?";
  const Rows all = rows_of(rows, StudyPart::sizes);
  const Json* worst = nullptr;
  std::size_t doubtful = 0;
  std::map<std::string, std::vector<std::string>> by_verdict;
  for (const Json* row : all) {
    if (!has(number(*row, "time_ms.cv"))) continue;
    if (worst == nullptr || number(*row, "time_ms.cv") > number(*worst, "time_ms.cv")) worst = row;
    const std::string verdict = text(*row, "timing.verdict");
    if (verdict.empty() || verdict == "steady") continue;
    ++doubtful;
    by_verdict[verdict].push_back(fmt::format("{}, {}", workload(*row), text(*row, "mode")));
  }
  if (worst == nullptr) return unanswered(kVariationTopic, question, StudyPart::sizes);
  const double cv = number(*worst, "time_ms.cv");
  StudyAnswer answer{.topic = kVariationTopic, .question = question};
  answer.sentence = fmt::format("The largest standard deviation is {} of the mean ({}, {}): {}.", percent(cv),
                                workload(*worst), text(*worst, "mode"),
                                cv < 0.02  ? "the iterations are steady"
                                : cv < 0.1 ? "differences of a few per cent need more iterations"
                                           : "small differences between rows of this study say nothing");
  answer.sentence += doubtful == 0            ? " Every row has the verdict steady."
                     : doubtful == all.size() ? " No row has the verdict steady."
                     : doubtful == 1          ? fmt::format(" 1 of {} rows is not steady.", all.size())
                                              : fmt::format(" {} of {} rows are not steady.", doubtful, all.size());
  for (const auto& [verdict, of_verdict] : by_verdict)
    answer.evidence.push_back({StudyPart::sizes, fmt::format("{}: {}", verdict, fmt::join(of_verdict, "; "))});
  return answer;
}

std::vector<double> samples_of(const Json& row) {
  std::vector<double> samples;
  for (const Json& sample : field(row, "time_ms.samples")) {
    if (sample.is_number()) samples.push_back(sample.get<double>());
  }
  return samples;
}

// The first timed iteration over the median of the others.
double first_over_others(const Json& row) {
  std::vector<double> samples = samples_of(row);
  if (samples.size() < 3) return std::nan("");
  const double first = samples.front();
  samples.erase(samples.begin());
  std::ranges::nth_element(samples, samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2));
  return first / samples[samples.size() / 2];
}

double squared_deviations(std::span<const double> samples) {
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += (sample - mean) * (sample - mean);
  return sum;
}

// The share of the squared deviations that goes away without the first iteration.
double first_share_of_spread(const Json& row) {
  const std::vector<double> samples = samples_of(row);
  const double all = squared_deviations(samples);
  return all > 0 ? 1 - squared_deviations(std::span(samples).subspan(1)) / all : 0;
}

std::string iterations_text(std::int64_t count) { return fmt::format("{} iteration{}", count, count == 1 ? "" : "s"); }

StudyAnswer warmup(const StudyRows& rows) {
  const char* question = "What does the warm-up change, and how much is enough?";
  const Rows all = rows_of(rows, StudyPart::warmup);
  const Json* cold = first_of(all, {{"warmup", 0}});
  if (cold == nullptr || !has(first_over_others(*cold)))
    return unanswered(kVariationTopic, question, StudyPart::warmup);
  StudyAnswer answer{.topic = kVariationTopic, .question = question};
  std::int64_t enough = -1;  // the least from which on the first iteration is like the others
  for (const Json* row : all) {
    if (!has(number(*row, "warmup"))) continue;
    const double first = first_over_others(*row);
    const auto warmup = static_cast<std::int64_t>(number(*row, "warmup"));
    answer.evidence.push_back(
        {StudyPart::warmup,
         fmt::format("{} of warm-up: mean {}, standard deviation {}, first iteration {} the median of the others",
                     iterations_text(warmup), ms(number(*row, "time_ms.mean")), ms(number(*row, "time_ms.std")),
                     times(first))});
    if (first >= 1.1) enough = -1;
    if (enough < 0 && first < 1.1) enough = warmup;
  }
  const double first = first_over_others(*cold);
  const double excess = number(*cold, "time_ms.mean") / number(*cold, kMedian) - 1;
  if (first >= 1.1) {
    answer.sentence = fmt::format(
        "Without a warm-up the first iteration takes {} as long as the others, which puts the mean {} above the "
        "median.",
        times(first), percent(excess));
    answer.sentence +=
        enough > 0       ? fmt::format(" After {} of warm-up the first timed one is within 10 % of the others.",
                                       iterations_text(enough))
        : all.size() > 1 ? " No measured warm-up brings the first timed one reliably within 10 % of the others."
                         : "";
  } else {
    answer.sentence = fmt::format(
        "Even without a warm-up the first iteration takes {} as long as the others, so here it changes little.",
        times(first));
  }
  const double share = first_share_of_spread(*cold);
  answer.elsewhere.push_back(
      {"unnamed_card", "Without a warm-up the first step dominates the spread.",
       first >= 1.1 && share >= 0.5 ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::contradicted,
       fmt::format("Here it takes {} as long as the others, and makes {} of the variance.", times(first),
                   percent(share))});
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_variation(const StudyRows& rows) { return {spread(rows), warmup(rows)}; }

}  // namespace ridgepoint::answers
