// How long forward, backward and a step take; what size, number type and context change; and how sure the times are:
// the spread of the iterations, and what a warm-up changes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kStepsTopic = "Training steps";

StudyAnswer times_by_size(const StudyRows& rows) {
  StudyAnswer answer{kStepsTopic, "How long do a forward pass and a training step take, by size?"};
  const Rows forwards = rows_of(rows, StudyPart::sizes, {{"mode", "forward"}, {"dtype", "fp32"}});
  if (forwards.empty()) return unanswered(answer, StudyPart::sizes);
  const Rows all = rows_of(rows, StudyPart::sizes);
  for (const std::string& model : texts_of(all, "model.name")) {
    for (const std::string& dtype : texts_of(all, "dtype")) {
      std::string line;
      for (const char* mode : {"forward", "forward_backward", "step"}) {
        const Json* row = first_of(all, {{"model.name", model}, {"dtype", dtype}, {"mode", mode}});
        if (row == nullptr) continue;
        const char* what = mode == std::string_view("forward_backward") ? "forward and backward" : mode;
        line += fmt::format("{}{} {}", line.empty() ? "" : ", ", what, ms_at(*row, kMedian));
      }
      if (!line.empty()) answer.add(StudyPart::sizes, "{}, {}: {}", model, dtype, line);
    }
  }
  const Json& small = *forwards.front();
  const Json& large = *forwards.back();
  answer.say("On {}, a forward pass of {} takes {} in fp32 (batch {}, context {}).", text_at(small, "device.name"),
             text_at(small, "model.name"), ms_at(small, kMedian), number_at(small, "batch"),
             number_at(small, "context"));
  if (&small == &large) return answer;
  const double growth = number_at(large, kMedian) / number_at(small, kMedian);
  const double more = number_at(large, "model.parameters") / number_at(small, "model.parameters");
  answer.say("A forward pass of {} takes {}: {} as long with {} the parameters, so the time grows {} the parameters.",
             text_at(large, "model.name"), ms_at(large, kMedian), times(growth), times(more),
             growth > 1.15 * more   ? "faster than"
             : growth < more / 1.15 ? "more slowly than"
                                    : "as fast as");
  return answer;
}

StudyAnswer backward_over_forward(const StudyRows& rows) {
  StudyAnswer answer{kStepsTopic, "How long is backward against forward?"};
  const Rows all = rows_of(rows, StudyPart::sizes);
  std::vector<double> backward, both;
  for (const auto& [forward, pair] : pairs_of(all, {{"mode", "forward"}, {"dtype", "fp32"}},
                                              {{"mode", "forward_backward"}, {"dtype", "fp32"}}, {"model.name"})) {
    const double of_both = number_at(*pair, kMedian) / number_at(*forward, kMedian);
    if (has(of_both)) both.push_back(of_both);
    const double ratio = number_at(*pair, "phase_ms.backward") / number_at(*pair, "phase_ms.forward");
    if (has(ratio)) backward.push_back(ratio);
    answer.add(StudyPart::sizes, "{}: forward {}, backward {}, ratio {}", workload(*pair),
               ms_at(*pair, "phase_ms.forward"), ms_at(*pair, "phase_ms.backward"), times(ratio));
  }
  if (backward.empty() || both.empty()) return unanswered(answer, StudyPart::sizes);
  const auto [least, most] = std::ranges::minmax(backward);
  answer.sentence = backward.size() == 1 ? fmt::format("Backward takes {} as long as forward.", times(least))
                                         : fmt::format("Backward takes {} to {} as long as forward over the sizes.",
                                                       times(least), times(most));
  answer.sentence +=
      most < 1.8 || least > 2.2
          ? fmt::format(" Its products have twice the operations, so other work makes it {} than twice.",
                        least > 2.2 ? "longer" : "shorter")
      : least < 1.8 || most > 2.2
          ? " Its products have twice the operations of forward's, and the time does not follow them at every size."
          : " Its products have twice the operations of forward's, and the time follows them.";
  std::ranges::sort(both);
  const double passes = both[both.size() / 2];
  answer.compare("unnamed_card", "Forward and backward together take about 3 times a forward pass.",
                 agreement(passes > 2.5 && passes < 3.5), "Here they take {}.", times(passes));
  return answer;
}

std::string phrase(Verdict verdict, double speedup) {
  if (verdict == Verdict::faster) return fmt::format("{} as fast", times(speedup));
  if (verdict == Verdict::slower) return fmt::format("slower ({} as fast)", times(speedup));
  return fmt::format("no different beyond the noise ({} as fast)", times(speedup));
}

StudyAnswer low_precision(const StudyRows& rows) {
  StudyAnswer answer{kStepsTopic, "What does bf16 gain over fp32, and how does that depend on size?"};
  const Rows all = rows_of(rows, StudyPart::sizes);
  std::vector<std::pair<std::string, double>> gains;
  std::string first;
  for (const auto& [full, low] : pairs_of(all, {{"dtype", "fp32"}}, {{"dtype", "bf16"}}, {"mode", "model.name"})) {
    const double speedup = number_at(*full, kMedian) / number_at(*low, kMedian);
    const std::string words = phrase(compare(*full, *low), speedup);
    answer.add(StudyPart::sizes, "{}, {}: fp32 {}, bf16 {}; bf16 is {}", text_at(*full, "model.name"),
               text_at(*full, "mode"), ms_at(*full, kMedian), ms_at(*low, kMedian), words);
    if (text_at(*full, "mode") != "forward") continue;
    gains.emplace_back(text_at(*full, "model.name"), speedup);
    if (first.empty())
      first = fmt::format("A forward pass of {} in bf16 is {} as in fp32.", text_at(*full, "model.name"), words);
  }
  if (gains.empty()) return unanswered(answer, StudyPart::sizes);
  answer.sentence = first;
  if (gains.size() > 1) {
    const double change = gains.back().second / gains.front().second;
    answer.say("For {} it is {}: the gain {} with size.", gains.back().first, times(gains.back().second),
               change > 1.05       ? "grows"
               : change < 1 / 1.05 ? "falls"
                                   : "hardly changes");
    answer.compare("unnamed_card",
                   "bf16 makes a forward pass 1.73x as fast for small and 2.75x for xl: the gain grows with size.",
                   agreement(change > 1.05), "Here the gain is {} for {} and {} for {}.", times(gains.front().second),
                   gains.front().first, times(gains.back().second), gains.back().first);
  }
  return answer;
}

StudyAnswer contexts(const StudyRows& rows) {
  StudyAnswer answer{kStepsTopic, "How does the time grow with the context length?"};
  for (const char* mode : {"forward", "step"}) {
    std::vector<std::pair<double, double>> points;
    for (const Json* row : rows_of(rows, StudyPart::contexts, {{"mode", mode}})) {
      points.emplace_back(number_at(*row, "context"), number_at(*row, kMedian));
      answer.add(StudyPart::contexts, "{}, {}: {}", workload(*row), mode, ms(points.back().second));
    }
    const double power = exponent(points);
    if (!has(power)) continue;
    answer.say("From {} to {} tokens the time of {} grows with the context to the power {:.2f}: {}.",
               points.front().first, points.back().first,
               mode == std::string_view("step") ? "a step" : "a forward pass", power,
               power > 1.15  ? "attention, which grows with its square, already counts"
               : power < 0.8 ? "more slowly than the tokens, so short sequences do not fill the machine"
                             : "nearly with the tokens, as the products with weights do");
  }
  return answer.sentence.empty() ? unanswered(answer, StudyPart::contexts) : answer;
}

StudyAnswer spread(const StudyRows& rows) {
  StudyAnswer answer{kStepsTopic, "How much do the iterations vary?"};
  const Rows all = rows_of(rows, StudyPart::sizes);
  const Json* worst = nullptr;
  std::size_t doubtful = 0;
  std::map<std::string, std::vector<std::string>> by_verdict;
  for (const Json* row : all) {
    if (!has(number_at(*row, "time_ms.cv"))) continue;
    if (worst == nullptr || number_at(*row, "time_ms.cv") > number_at(*worst, "time_ms.cv")) worst = row;
    const std::string verdict = text_at(*row, "timing.verdict");
    if (verdict.empty() || verdict == "steady") continue;
    ++doubtful;
    by_verdict[verdict].push_back(fmt::format("{}, {}", workload(*row), text_at(*row, "mode")));
  }
  if (worst == nullptr) return unanswered(answer, StudyPart::sizes);
  const double cv = number_at(*worst, "time_ms.cv");
  answer.say("The largest standard deviation is {} of the mean ({}, {}): {}.", percent(cv), workload(*worst),
             text_at(*worst, "mode"),
             cv < 0.02  ? "the iterations are steady"
             : cv < 0.1 ? "differences of a few per cent need more iterations"
                        : "small differences between rows of this study say nothing");
  answer.sentence += doubtful == 0            ? " Every row has the verdict steady."
                     : doubtful == all.size() ? " No row has the verdict steady."
                     : doubtful == 1          ? fmt::format(" 1 of {} rows is not steady.", all.size())
                                              : fmt::format(" {} of {} rows are not steady.", doubtful, all.size());
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
  StudyAnswer answer{kStepsTopic, "What does the warm-up change, and how much is enough?"};
  const Rows all = rows_of(rows, StudyPart::warmup);
  const Json* cold = first_of(all, {{"warmup", 0}});
  if (cold == nullptr || !has(first_over_others(*cold))) return unanswered(answer, StudyPart::warmup);
  std::int64_t enough = -1;  // the least from which on the first iteration is like the others
  for (const Json* row : all) {
    if (!has(number_at(*row, "warmup"))) continue;
    const double first = first_over_others(*row);
    const auto warmup = static_cast<std::int64_t>(number_at(*row, "warmup"));
    answer.add(StudyPart::warmup,
               "{} of warm-up: mean {}, standard deviation {}, first iteration {} the median of the others",
               iterations_text(warmup), ms_at(*row, "time_ms.mean"), ms_at(*row, "time_ms.std"), times(first));
    if (first >= 1.1) enough = -1;
    if (enough < 0 && first < 1.1) enough = warmup;
  }
  const double first = first_over_others(*cold);
  const double excess = number_at(*cold, "time_ms.mean") / number_at(*cold, kMedian) - 1;
  if (first >= 1.1) {
    answer.say(
        "Without a warm-up the first iteration takes {} as long as the others, which puts the mean {} above the "
        "median.",
        times(first), percent(excess));
    answer.sentence +=
        enough > 0       ? fmt::format(" After {} of warm-up the first timed one is within 10 % of the others.",
                                       iterations_text(enough))
        : all.size() > 1 ? " No measured warm-up brings the first timed one reliably within 10 % of the others."
                         : "";
  } else {
    answer.say("Even without a warm-up the first iteration takes {} as long as the others, so here it changes little.",
               times(first));
  }
  const double share = first_share_of_spread(*cold);
  answer.compare("unnamed_card", "Without a warm-up the first step dominates the spread.",
                 agreement(first >= 1.1 && share >= 0.5),
                 "Here it takes {} as long as the others, and makes {} of the variance.", times(first), percent(share));
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_steps(const StudyRows& rows) {
  return {times_by_size(rows), backward_over_forward(rows), spread(rows),
          warmup(rows),        low_precision(rows),         contexts(rows)};
}

}  // namespace ridgepoint::answers
