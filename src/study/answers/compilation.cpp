// What compilation and checkpointing change.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "study/answers/rows.h"
#include "study/answers/topics.h"

namespace ridgepoint::answers {
namespace {

std::string range_text(const std::vector<double>& ratios) {
  const auto [least, most] = std::ranges::minmax(ratios);
  return times(least) == times(most) ? times(least) : fmt::format("{} to {}", times(least), times(most));
}

std::string verdict_on(const std::vector<double>& ratios) {
  const auto [least, most] = std::ranges::minmax(ratios);
  return least > 1.02    ? "faster in every row"
         : most < 0.98   ? "slower in every row"
         : least >= 0.98 ? "never slower"
                         : "faster in some rows and slower in others";
}

StudyAnswer compiled_attention(const StudyRows& rows) {
  const char* question = "What does compiling attention gain?";
  const Rows all = rows_of(rows, StudyPart::compiled_attention);
  StudyAnswer answer{.topic = "Compilation", .question = question};
  std::vector<double> forward, backward;
  for (const Json* off : rows_of(all, {{"compile", "off"}})) {
    const Json* full = first_of(all, {{"compile", "full"}, {"context", field(*off, "context")}});
    if (full == nullptr) continue;
    forward.push_back(number(*off, "forward_ms.median") / number(*full, "forward_ms.median"));
    backward.push_back(number(*off, "backward_ms.median") / number(*full, "backward_ms.median"));
    answer.evidence.push_back({StudyPart::compiled_attention,
                               fmt::format("{} tokens: forward {}, backward {}, peak {} against {}",
                                           number(*off, "context"), times(forward.back()), times(backward.back()),
                                           bytes(number(*full, kPeak)), bytes(number(*off, kPeak)))});
  }
  if (forward.empty()) return unanswered("Compilation", question, StudyPart::compiled_attention);
  answer.sentence = fmt::format("Compiled, forward is {} as fast ({}) and backward {} ({}).", range_text(forward),
                                verdict_on(forward), range_text(backward), verdict_on(backward));
  const double longest = forward.back();
  answer.elsewhere.push_back({"rtx_a4500_20gb", "Compiled attention is 1.8 to 2.1 times as fast in forward.",
                              longest > 1.7 ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::contradicted,
                              fmt::format("Here it is {} at the longest sequence.", times(longest))});
  return answer;
}

std::string peak_text(double change) {
  if (std::abs(change) < 0.005) return "with the same peak";
  return fmt::format("with a peak {} {}", percent(std::abs(change)), change < 0 ? "lower" : "higher");
}

StudyAnswer compiled_model(const StudyRows& rows) {
  const char* question = "What does compiling a whole model gain, in time and in memory?";
  const Rows all = rows_of(rows, StudyPart::compiled_model);
  StudyAnswer answer{.topic = "Compilation", .question = question};
  std::vector<std::string> sentences;
  const Json* claimed = nullptr;  // a step, of large if it was measured
  double claimed_gain = 0;
  for (const Json* off : rows_of(all, {{"compile", "off"}})) {
    const Json* full =
        first_of(all, {{"compile", "full"}, {"mode", field(*off, "mode")}, {"model.name", field(*off, "model.name")}});
    if (full == nullptr) continue;
    const double gain = number(*off, kMedian) / number(*full, kMedian);
    const double memory = number(*full, kPeak) / number(*off, kPeak) - 1;
    const Verdict verdict = compare(*off, *full);
    const char* words = verdict == Verdict::faster   ? "faster"
                        : verdict == Verdict::slower ? "slower"
                                                     : "no different beyond the noise";
    answer.evidence.push_back(
        {StudyPart::compiled_model,
         fmt::format("{}, {}: {} against {}: {}, {}; peak {:+.1f} %", workload(*off), text(*off, "mode"),
                     ms(number(*full, kMedian)), ms(number(*off, kMedian)), times(gain), words, 100 * memory)});
    sentences.push_back(fmt::format("{} of {} is {}, {}", text(*off, "mode") == "step" ? "a step" : "a forward pass",
                                    text(*off, "model.name"),
                                    verdict == Verdict::faster   ? times(gain) + " as fast"
                                    : verdict == Verdict::slower ? times(1 / gain) + " as slow"
                                                                 : std::string(words),
                                    peak_text(memory)));
    if (text(*off, "mode") != "step") continue;
    if (claimed == nullptr || text(*off, "model.name") == "large") claimed = off, claimed_gain = gain;
  }
  if (sentences.empty()) return unanswered("Compilation", question, StudyPart::compiled_model);
  answer.sentence = fmt::format("Compiled, {}.", fmt::join(sentences, "; "));
  if (claimed != nullptr) {
    const bool is_faster = claimed_gain >= 1.05;
    answer.elsewhere.push_back(
        {"rtx_a4500_20gb", "Compiling makes a step of large 11 % faster.",
         is_faster ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::contradicted,
         fmt::format("Here {}a step of {} is {} as fast.", claimed_gain > 1.2 ? "it gains more: " : "",
                     text(*claimed, "model.name"), times(claimed_gain))});
  }
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_compilation(const StudyRows& rows) {
  return {compiled_attention(rows), compiled_model(rows)};
}

std::vector<StudyAnswer> about_checkpointing(const StudyRows& rows) {
  const char* question = "What does checkpointing save, and what does it cost?";
  const Rows all = rows_of(rows, StudyPart::checkpointing);
  const Json* none = first_of(all, {{"checkpoint", "none"}});
  if (none == nullptr || all.size() < 2) return {unanswered("Checkpointing", question, StudyPart::checkpointing)};
  StudyAnswer answer{.topic = "Checkpointing", .question = question};
  const Json* least = none;
  for (const Json* row : all) {
    answer.evidence.push_back(
        {StudyPart::checkpointing,
         fmt::format("{}: {}, peak {}, before backward {}, recomputed {}", text(*row, "checkpoint"),
                     ms(number(*row, kMedian)), bytes(number(*row, kPeak)),
                     bytes(number(*row, "memory_bytes.before_backward")), flops(number(*row, "recomputed_flops")))});
    if (number(*row, kPeak) < number(*least, kPeak)) least = row;
  }
  if (least == none) {
    answer.sentence = fmt::format("No policy lowers the peak of {} at this size.", workload(*none));
    return {answer};
  }
  const double cost = number(*least, kMedian) / number(*none, kMedian);
  answer.sentence = fmt::format(
      "Of the policies '{}' has the lowest peak: {} instead of {} ({} less), for a step that takes {} as long{}.",
      text(*least, "checkpoint"), bytes(number(*least, kPeak)), bytes(number(*none, kPeak)),
      percent(1 - number(*least, kPeak) / number(*none, kPeak)), times(cost),
      compare(*none, *least) == Verdict::slower ? "" : ", which is within the noise");
  return {answer};
}

}  // namespace ridgepoint::answers
