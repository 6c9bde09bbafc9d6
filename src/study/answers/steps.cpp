// How long forward, backward and a step take, and what size, number type and context change.
#include <fmt/format.h>

#include <algorithm>

#include "study/answers/rows.h"
#include "study/answers/topics.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kStepsTopic = "Training steps";

StudyAnswer times_by_size(const StudyRows& rows) {
  const char* question = "How long do a forward pass and a training step take, by size?";
  const Rows forwards = rows_of(rows, StudyPart::sizes, {{"mode", "forward"}, {"dtype", "fp32"}});
  if (forwards.empty()) return unanswered(kStepsTopic, question, StudyPart::sizes);
  StudyAnswer answer{.topic = kStepsTopic, .question = question};
  const Rows all = rows_of(rows, StudyPart::sizes);
  for (const std::string& model : texts_of(all, "model.name")) {
    for (const std::string& dtype : texts_of(all, "dtype")) {
      std::string line;
      for (const char* mode : {"forward", "backward", "step"}) {
        const Json* row = first_of(all, {{"model.name", model}, {"dtype", dtype}, {"mode", mode}});
        if (row == nullptr) continue;
        const char* what = mode == std::string_view("backward") ? "forward and backward" : mode;
        line += fmt::format("{}{} {}", line.empty() ? "" : ", ", what, ms(number(*row, kMedian)));
      }
      if (!line.empty()) answer.evidence.push_back({StudyPart::sizes, fmt::format("{}, {}: {}", model, dtype, line)});
    }
  }
  const Json& small = *forwards.front();
  const Json& large = *forwards.back();
  answer.sentence = fmt::format("On {}, a forward pass of {} takes {} in fp32 (batch {}, context {}).",
                                text(small, "device.name"), text(small, "model.name"), ms(number(small, kMedian)),
                                number(small, "batch"), number(small, "context"));
  if (&small == &large) return answer;
  const double growth = number(large, kMedian) / number(small, kMedian);
  const double more = number(large, "model.parameters") / number(small, "model.parameters");
  answer.sentence +=
      fmt::format(" That of {} takes {}: {} as long with {} the parameters, so the time grows {} the parameters.",
                  text(large, "model.name"), ms(number(large, kMedian)), times(growth), times(more),
                  growth > 1.15 * more   ? "faster than"
                  : growth < more / 1.15 ? "more slowly than"
                                         : "as fast as");
  return answer;
}

StudyClaim claim_of_three_passes(double ratio) {
  StudyClaim claim{.source = "unnamed_card",
                   .text = "Forward and backward together take about 3 times a forward pass."};
  claim.verdict = ratio > 2.5 && ratio < 3.5 ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::contradicted;
  claim.reason = fmt::format("Here they take {}.", times(ratio));
  return claim;
}

StudyAnswer backward_over_forward(const StudyRows& rows) {
  const char* question = "How long is backward against forward?";
  const Rows all = rows_of(rows, StudyPart::sizes);
  StudyAnswer answer{.topic = kStepsTopic, .question = question};
  std::vector<double> backward, both;
  for (const Json* forward : rows_of(all, {{"mode", "forward"}, {"dtype", "fp32"}})) {
    const Json* pair =
        first_of(all, {{"mode", "backward"}, {"dtype", "fp32"}, {"model.name", field(*forward, "model.name")}});
    if (pair == nullptr) continue;
    const double of_both = number(*pair, kMedian) / number(*forward, kMedian);
    if (has(of_both)) both.push_back(of_both);
    const double ratio = number(*pair, "phase_ms.backward") / number(*pair, "phase_ms.forward");
    if (has(ratio)) backward.push_back(ratio);
    answer.evidence.push_back({StudyPart::sizes, fmt::format("{}: forward {}, backward {}, ratio {}", workload(*pair),
                                                             ms(number(*pair, "phase_ms.forward")),
                                                             ms(number(*pair, "phase_ms.backward")), times(ratio))});
  }
  if (backward.empty() || both.empty()) return unanswered(kStepsTopic, question, StudyPart::sizes);
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
  answer.elsewhere.push_back(claim_of_three_passes(both[both.size() / 2]));
  return answer;
}

std::string phrase(Verdict verdict, double speedup) {
  if (verdict == Verdict::faster) return fmt::format("{} as fast", times(speedup));
  if (verdict == Verdict::slower) return fmt::format("slower ({} as fast)", times(speedup));
  return fmt::format("no different beyond the noise ({} as fast)", times(speedup));
}

StudyAnswer low_precision(const StudyRows& rows) {
  const char* question = "What does bf16 gain over fp32, and how does that depend on size?";
  const Rows all = rows_of(rows, StudyPart::sizes);
  StudyAnswer answer{.topic = kStepsTopic, .question = question};
  std::vector<std::pair<std::string, double>> gains;
  std::string first;
  for (const Json* full : rows_of(all, {{"dtype", "fp32"}})) {
    const Json* low =
        first_of(all, {{"dtype", "bf16"}, {"mode", field(*full, "mode")}, {"model.name", field(*full, "model.name")}});
    if (low == nullptr) continue;
    const double speedup = number(*full, kMedian) / number(*low, kMedian);
    const std::string words = phrase(compare(*full, *low), speedup);
    answer.evidence.push_back(
        {StudyPart::sizes,
         fmt::format("{}, {}: fp32 {}, bf16 {}; bf16 is {}", text(*full, "model.name"), text(*full, "mode"),
                     ms(number(*full, kMedian)), ms(number(*low, kMedian)), words)});
    if (text(*full, "mode") != "forward") continue;
    gains.emplace_back(text(*full, "model.name"), speedup);
    if (first.empty())
      first = fmt::format("A forward pass of {} in bf16 is {} as in fp32.", text(*full, "model.name"), words);
  }
  if (gains.empty()) return unanswered(kStepsTopic, question, StudyPart::sizes);
  answer.sentence = first;
  if (gains.size() > 1) {
    const double change = gains.back().second / gains.front().second;
    answer.sentence +=
        fmt::format(" For {} it is {}: the gain {} with size.", gains.back().first, times(gains.back().second),
                    change > 1.05       ? "grows"
                    : change < 1 / 1.05 ? "falls"
                                        : "hardly changes");
    answer.elsewhere.push_back(
        {"unnamed_card",
         "bf16 makes a forward pass 1.73x as fast for small and 2.75x for xl: the gain grows with size.",
         change > 1.05 ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::contradicted,
         fmt::format("Here the gain is {} for {} and {} for {}.", times(gains.front().second), gains.front().first,
                     times(gains.back().second), gains.back().first)});
  }
  return answer;
}

StudyAnswer contexts(const StudyRows& rows) {
  const char* question = "How does the time grow with the context length?";
  StudyAnswer answer{.topic = kStepsTopic, .question = question};
  for (const char* mode : {"forward", "step"}) {
    std::vector<std::pair<double, double>> points;
    for (const Json* row : rows_of(rows, StudyPart::contexts, {{"mode", mode}})) {
      points.emplace_back(number(*row, "context"), number(*row, kMedian));
      answer.evidence.push_back(
          {StudyPart::contexts, fmt::format("{}, {}: {}", workload(*row), mode, ms(points.back().second))});
    }
    const double power = exponent(points);
    if (!has(power)) continue;
    answer.sentence +=
        fmt::format("{}From {} to {} tokens the time of {} grows with the context to the power {:.2f}: {}.",
                    answer.sentence.empty() ? "" : " ", points.front().first, points.back().first,
                    mode == std::string_view("step") ? "a step" : "a forward pass", power,
                    power > 1.15  ? "attention, which grows with its square, already counts"
                    : power < 0.8 ? "more slowly than the tokens, so short sequences do not fill the machine"
                                  : "nearly with the tokens, as the products with weights do");
  }
  return answer.sentence.empty() ? unanswered(kStepsTopic, question, StudyPart::contexts) : answer;
}

}  // namespace

std::vector<StudyAnswer> about_steps(const StudyRows& rows) {
  std::vector<StudyAnswer> answers = {times_by_size(rows), backward_over_forward(rows)};
  for (StudyAnswer& answer : about_variation(rows)) answers.push_back(std::move(answer));
  answers.push_back(low_precision(rows));
  answers.push_back(contexts(rows));
  return answers;
}

}  // namespace ridgepoint::answers
