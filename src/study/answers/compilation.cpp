// What compilation and checkpointing change.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "study/answers/rows.h"

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
  StudyAnswer answer{"Compilation", "What does compiling attention gain?"};
  const Rows all = rows_of(rows, StudyPart::compiled_attention);
  std::vector<double> forward, backward;
  for (const auto& [off, full] : pairs_of(all, {{"compile", "off"}}, {{"compile", "full"}}, {"context"})) {
    forward.push_back(number_at(*off, "forward_ms.median") / number_at(*full, "forward_ms.median"));
    backward.push_back(number_at(*off, "backward_ms.median") / number_at(*full, "backward_ms.median"));
    answer.add(StudyPart::compiled_attention, "{} tokens: forward {}, backward {}, peak {} against {}",
               number_at(*off, "context"), times(forward.back()), times(backward.back()), bytes_at(*full, kPeak),
               bytes_at(*off, kPeak));
  }
  if (forward.empty()) return unanswered(answer, StudyPart::compiled_attention);
  answer.say("Compiled, forward is {} as fast ({}) and backward {} ({}).", range_text(forward), verdict_on(forward),
             range_text(backward), verdict_on(backward));
  const double longest = forward.back();
  answer.compare("rtx_a4500_20gb", "Compiled attention is 1.8 to 2.1 times as fast in forward.",
                 agreement(longest > 1.7), "Here it is {} at the longest sequence.", times(longest));
  return answer;
}

std::string peak_text(double change) {
  if (std::abs(change) < 0.005) return "with the same peak";
  return fmt::format("with a peak {} {}", percent(std::abs(change)), change < 0 ? "lower" : "higher");
}

StudyAnswer compiled_model(const StudyRows& rows) {
  StudyAnswer answer{"Compilation", "What does compiling a whole model gain, in time and in memory?"};
  const Rows all = rows_of(rows, StudyPart::compiled_model);
  std::vector<std::string> sentences;
  const Json* claimed = nullptr;  // a step, of large if it was measured
  double claimed_gain = 0;
  for (const auto& [off, full] : pairs_of(all, {{"compile", "off"}}, {{"compile", "full"}}, {"mode", "model.name"})) {
    const double gain = number_at(*off, kMedian) / number_at(*full, kMedian);
    const double memory = number_at(*full, kPeak) / number_at(*off, kPeak) - 1;
    const Verdict verdict = compare(*off, *full);
    const char* words = verdict == Verdict::faster   ? "faster"
                        : verdict == Verdict::slower ? "slower"
                                                     : "no different beyond the noise";
    answer.add(StudyPart::compiled_model, "{}, {}: {} against {}: {}, {}; peak {:+.1f} %", workload(*off),
               text_at(*off, "mode"), ms_at(*full, kMedian), ms_at(*off, kMedian), times(gain), words, 100 * memory);
    sentences.push_back(fmt::format("{} of {} is {}, {}", text_at(*off, "mode") == "step" ? "a step" : "a forward pass",
                                    text_at(*off, "model.name"),
                                    verdict == Verdict::faster   ? times(gain) + " as fast"
                                    : verdict == Verdict::slower ? times(1 / gain) + " as slow"
                                                                 : std::string(words),
                                    peak_text(memory)));
    if (text_at(*off, "mode") != "step") continue;
    if (claimed == nullptr || text_at(*off, "model.name") == "large") claimed = off, claimed_gain = gain;
  }
  if (sentences.empty()) return unanswered(answer, StudyPart::compiled_model);
  answer.say("Compiled, {}.", fmt::join(sentences, "; "));
  if (claimed != nullptr) {
    const bool is_faster = claimed_gain >= 1.05;
    answer.compare("rtx_a4500_20gb", "Compiling makes a step of large 11 % faster.", agreement(is_faster),
                   "Here {}a step of {} is {} as fast.", claimed_gain > 1.2 ? "it gains more: " : "",
                   text_at(*claimed, "model.name"), times(claimed_gain));
  }
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_compilation(const StudyRows& rows) {
  return {compiled_attention(rows), compiled_model(rows)};
}

std::vector<StudyAnswer> about_checkpointing(const StudyRows& rows) {
  StudyAnswer answer{"Checkpointing", "What does checkpointing save, and what does it cost?"};
  const Rows all = rows_of(rows, StudyPart::checkpointing);
  const Json* none = first_of(all, {{"checkpoint", "none"}});
  if (none == nullptr || all.size() < 2) return {unanswered(answer, StudyPart::checkpointing)};
  const Json* least = none;
  for (const Json* row : all) {
    answer.add(StudyPart::checkpointing, "{}: {}, peak {}, before backward {}, recomputed {}",
               text_at(*row, "checkpoint"), ms_at(*row, kMedian), bytes_at(*row, kPeak),
               bytes_at(*row, "memory_bytes.before_backward"), flops(number_at(*row, "recomputed_flops")));
    if (number_at(*row, kPeak) < number_at(*least, kPeak)) least = row;
  }
  if (least == none) {
    answer.say("No policy lowers the peak of {} at this size.", workload(*none));
    return {answer};
  }
  const double cost = number_at(*least, kMedian) / number_at(*none, kMedian);
  answer.say(
      "Of the policies '{}' has the lowest peak: {} instead of {} ({} less), for a step that takes {} as long{}.",
      text_at(*least, "checkpoint"), bytes_at(*least, kPeak), bytes_at(*none, kPeak),
      percent(1 - number_at(*least, kPeak) / number_at(*none, kPeak)), times(cost),
      compare(*none, *least) == Verdict::slower ? "" : ", which is within the noise");
  return {answer};
}

}  // namespace ridgepoint::answers
