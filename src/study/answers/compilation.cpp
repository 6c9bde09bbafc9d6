// The effect of compilation.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

Range range_of(const std::vector<Speedup>& all) {
  const auto [least, most] = std::ranges::minmax(all, {}, &Speedup::ratio);
  return {least.ratio, most.ratio};
}

// "faster in every row", "faster in 3 of 4 rows, slower in none": by the intervals.
std::string verdict_on(const std::vector<Speedup>& all) {
  const auto count = static_cast<std::size_t>(std::ranges::count(all, Verdict::faster, &Speedup::verdict));
  const auto slower = static_cast<std::size_t>(std::ranges::count(all, Verdict::slower, &Speedup::verdict));
  if (count == all.size()) return "faster in every row";
  if (slower == all.size()) return "slower in every row";
  return fmt::format("faster in {} of {} rows and slower in {}, by the intervals", count, all.size(), slower);
}

StudyAnswer compiled_attention(const PartRows& rows) {
  StudyAnswer answer{"Compilation", "What does compiling attention gain?"};
  const Rows all = sorted_by(rows_of(rows, StudyPart::compiled_attention), "context");
  std::vector<Speedup> forward, backward;
  std::optional<Range> at_long;  // where the source has its range
  std::string in_doubt, long_in_doubt;
  const Json* last = nullptr;
  for (const auto& [off, full] : pairs_of(all, {{"compile", "off"}}, {{"compile", "full"}},
                                          {"context", "model.d_model", "dtype", "attention", "batch"})) {
    forward.push_back(speedup(*off, *full, {"forward_ms"}));
    backward.push_back(speedup(*off, *full, {"backward_ms"}));
    answer.add(StudyPart::compiled_attention, "{} tokens: forward {}, backward {}, peak {} against {}",
               number_at(*off, "context"), words(forward.back()), words(backward.back()), bytes_at(*full, kPeak),
               bytes_at(*off, kPeak));
    last = off;
    for (const Speedup& each : {forward.back(), backward.back()}) {
      if (in_doubt.empty()) in_doubt = each.doubt;
    }
    if (number_at(*off, "context") < 1024 || !forward.back().interval) continue;
    if (long_in_doubt.empty()) long_in_doubt = forward.back().doubt;
    const Range range = *forward.back().interval;
    at_long = at_long ? Range{std::min(at_long->low, range.low), std::max(at_long->high, range.high)} : range;
  }
  if (forward.empty()) return unanswered(answer, StudyPart::compiled_attention);
  answer.say("Compiled, forward is {} as fast ({}) and backward {} ({}){}.", times(range_of(forward)),
             verdict_on(forward), times(range_of(backward)), verdict_on(backward), in_doubt);
  judge(answer,
        {.source = "rtx_a4500_20gb",
         .text = "Compiled attention is 1.8 to 2.1 times as fast in forward, from 1,024 tokens on.",
         .figures = {{1.75, 2.15}},
         .of = {{"batch", 8}, {"model.d_model", 16}}},
        *last,
        {.figures = {at_long},
         .text = fmt::format("it is {}", at_long ? times(*at_long) : times(range_of(forward))),
         .doubt = at_long ? long_in_doubt : in_doubt});
  return answer;
}

std::string peak_text(double change) {
  if (std::abs(change) < 0.005) return "with the same peak";
  return fmt::format("with a peak {} {}", percent(std::abs(change)), change < 0 ? "lower" : "higher");
}

StudyAnswer compiled_model(const PartRows& rows) {
  StudyAnswer answer{"Compilation", "What does compiling a whole model gain, in time and in memory?"};
  const Rows all = rows_of(rows, StudyPart::compiled_model);
  std::vector<std::string> sentences;
  const Json* claimed = nullptr;  // a step, of large if it was measured
  Speedup claimed_gain;
  for (const auto& [off, full] : pairs_of(all, {{"compile", "off"}}, {{"compile", "full"}},
                                          {"mode", "model.name", "dtype", "batch", "context"})) {
    const Speedup gain = speedup(*off, *full);
    const double memory = number_at(*full, kPeak) / number_at(*off, kPeak) - 1;
    answer.add(StudyPart::compiled_model, "{}, {}: {} against {}: {}; peak {:+.1f} %", workload(*off),
               text_at(*off, "mode"), ms_at(*full, kMedian), ms_at(*off, kMedian), words(gain), 100 * memory);
    sentences.push_back(fmt::format("{} of {} is {}, {}", pass_name(text_at(*off, "mode")), text_at(*off, "model.name"),
                                    words(gain), peak_text(memory)));
    if (text_at(*off, "mode") != "step") continue;
    if (claimed == nullptr || text_at(*off, "model.name") == "large") claimed = off, claimed_gain = gain;
  }
  if (sentences.empty()) return unanswered(answer, StudyPart::compiled_model);
  answer.say("Compiled, {}.", fmt::join(sentences, "; "));
  if (claimed == nullptr) return answer;
  judge(answer,
        {.source = "rtx_a4500_20gb",
         .text = "Compiling makes a step of large 11 % faster.",
         .figures = {{1.08, 1.14}},
         .of = {{"model.name", "large"}, {"batch", 1}, {"context", 512}}},
        *claimed,
        {.figures = {claimed_gain.interval},
         .text = fmt::format("a step of {} is {} as fast", text_at(*claimed, "model.name"), times(claimed_gain.ratio)),
         .doubt = claimed_gain.doubt});
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_compilation(const PartRows& rows) {
  return {compiled_attention(rows), compiled_model(rows)};
}

}  // namespace ridgepoint::answers
