// Attention alone: time and memory over sequence lengths, what it allocates, and what removes the matrices of scores.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kAttentionTopic = "Attention";
constexpr const char* kForward = "forward_ms.median";
constexpr const char* kBackward = "backward_ms.median";
constexpr const char* kSaved = "memory_bytes.before_backward";
// At shorter sequences the operands, which are linear, are a part of the memory of any attention.
constexpr double kQuadraticMemoryFrom = 4096;

StudyAnswer grid(const StudyRows& rows) {
  StudyAnswer answer{kAttentionTopic,
                     "How do the time of attention, and the memory it keeps for backward, grow with the sequence?"};
  const Rows all = rows_of(rows, StudyPart::attention_grid);
  std::vector<std::pair<double, double>> time, memory;
  std::vector<double> widths;
  for (const Json* row : all) widths.push_back(number_at(*row, "model.d_model"));
  if (widths.empty()) return unanswered(answer, StudyPart::attention_grid);
  const double width = std::ranges::find(widths, 64.0) != widths.end() ? 64 : widths.front();
  Rows shown = all;
  std::ranges::stable_partition(shown, [&](const Json* row) { return number_at(*row, "model.d_model") == width; });
  for (const Json* row : shown) {
    answer.add(StudyPart::attention_grid, "d {}, {} tokens: forward {}, backward {}, before backward {}, peak {}",
               number_at(*row, "model.d_model"), number_at(*row, "context"), ms_at(*row, kForward),
               ms_at(*row, kBackward), bytes_at(*row, kSaved), bytes_at(*row, "memory_bytes.peak_allocated"));
    if (number_at(*row, "model.d_model") != width) continue;
    time.emplace_back(number_at(*row, "context"), number_at(*row, kForward) + number_at(*row, kBackward));
    memory.emplace_back(number_at(*row, "context"), number_at(*row, kSaved));
  }
  if (time.size() < 2) {
    answer.say("Only one sequence length ran, so nothing can be said about growth: {}.", answer.evidence.front().text);
    return answer;
  }
  const std::span<const std::pair<double, double>> last_memory = std::span(memory).last(2);
  const double of_time = exponent(std::span(time).last(2));
  const double of_memory = exponent(last_memory);
  answer.say(
      "From {} to {} tokens (d {}) the time grows with the sequence to the power {:.2f} and the memory to the power "
      "{:.2f}: {}.",
      last_memory.front().first, last_memory.back().first, width, of_time, of_memory,
      of_memory > 1.8 ? "the stored matrices of scores, which are quadratic, are nearly all of it"
                      : "the operands, which are linear, still count");
  const double longest = last_memory.back().first;
  const bool is_like = of_memory > 1.9 && of_memory < 2.1;
  answer.compare("a800_80gb", "Memory before backward grows 4-fold for twice the length.",
                 is_like                          ? StudyClaim::Verdict::confirmed
                 : longest < kQuadraticMemoryFrom ? StudyClaim::Verdict::not_comparable
                                                  : StudyClaim::Verdict::contradicted,
                 "Here it grows {:.2f}-fold up to {} tokens.", std::pow(2, of_memory), longest);
  return answer;
}

// What the run of the longest sequence said.
std::string confirmation(std::string_view confirmed) {
  if (confirmed == "yes") return ", and a run of it did fit";
  if (confirmed == "no") return ", but a run of it did not fit";
  return "; no run has tried it";
}

StudyAnswer out_of_memory(const StudyRows& rows) {
  StudyAnswer answer{kAttentionTopic, "Where does attention run out of memory?"};
  double shortest = std::nan("");
  double limit_of_shortest = std::nan("");
  if (const auto all = rows.find(StudyPart::attention_grid); all != rows.end()) {
    for (const Json& row : all->second) {
      if (text_at(row, "status") != "oom") continue;
      const double length = number_at(row, "context");
      const double limit = number_at(row, "device.memory_limit_bytes");
      if (!has(shortest) || length < shortest) shortest = length, limit_of_shortest = limit;
      answer.add(StudyPart::attention_grid, "d {}, {} tokens: out of memory{}", number_at(row, "model.d_model"), length,
                 has(limit) ? ", with a limit of " + bytes(limit) : "");
    }
  }
  const Rows limits = rows_of(rows, StudyPart::attention_limit);
  for (const Json* row : limits) {
    answer.add(StudyPart::attention_limit, "{}: {} tokens fit ({}), {} do not; confirmed by a run: {}",
               text_at(*row, "attention"), number_at(*row, "longest_sequence"), bytes_at(*row, "peak_allocated_bytes"),
               number_at(*row, "next_sequence"), text_at(*row, "confirmed"));
  }
  if (answer.evidence.empty() && rows_of(rows, StudyPart::attention_grid).empty())
    return unanswered(answer, StudyPart::attention_grid);
  answer.sentence = has(shortest)
                        ? fmt::format("In the grid the shortest sequence that does not fit{} is {} tokens.",
                                      has(limit_of_shortest) ? " into " + bytes(limit_of_shortest) : "", shortest)
                        : "Every row of the grid fits.";
  if (!limits.empty() && has(number_at(*limits.front(), "longest_sequence"))) {
    const double limit = number_at(*limits.front(), "memory_bytes");
    answer.say("The longest that fits{} is {} tokens for {} attention by the prediction{}.",
               has(limit) ? " into " + bytes(limit) : "", number_at(*limits.front(), "longest_sequence"),
               text_at(*limits.front(), "attention"), confirmation(text_at(*limits.front(), "confirmed")));
  }
  answer.compare("rtx_a4500_20gb", "On a 20 GB card 16,384 tokens run out of memory.",
                 StudyClaim::Verdict::not_comparable, "The memory of the device is another one.");
  return answer;
}

StudyAnswer accounting(const StudyRows& rows) {
  StudyAnswer answer{kAttentionTopic, "What does attention allocate, and does the sum agree with the measurement?"};
  const Rows all = rows_of(rows, StudyPart::accounting, {{"moment", "before backward"}});
  if (all.empty()) return unanswered(answer, StudyPart::accounting);
  double predicted = 0, measured = 0, quadratic = 0;
  int matrices = 0;
  for (const Json* row : all) {
    const double size = number_at(*row, "measured_bytes");
    predicted += number_at(*row, "predicted_bytes");
    measured += size;
    if (text_at(*row, "shape").ends_with("S S")) quadratic += size, ++matrices;
    answer.add(StudyPart::accounting, "{} [{}]: {} = {}", text_at(*row, "component"), text_at(*row, "shape"),
               text_at(*row, "formula"), bytes(size));
  }
  const double allocated = number_at(*all.front(), "allocated_bytes");
  answer.say(
      "Before backward {} attention at {} tokens holds {} in {} tensors, {} of it in {} of scores. The "
      "formulas give {}: {}.",
      text_at(*all.front(), "attention"), number_at(*all.front(), "sequence"), bytes(allocated), all.size(),
      percent(quadratic / measured), matrices == 1 ? "1 matrix" : fmt::format("{} matrices", matrices),
      bytes(predicted),
      predicted == measured && measured == allocated
          ? "the measured bytes exactly"
          : fmt::format("{} off the measured bytes", percent(std::abs(predicted / allocated - 1))));
  answer.compare("a800_80gb",
                 "Attention with three stored matrices of scores keeps 24,897 MiB before backward at 16,384 tokens.",
                 matrices == 3 ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::not_comparable,
                 "Here {} are stored, and {} kept.", matrices == 1 ? "1 matrix" : fmt::format("{} matrices", matrices),
                 bytes(measured));
  return answer;
}

StudyAnswer ladder(const StudyRows& rows) {
  StudyAnswer answer{kAttentionTopic,
                     "What do variants save that keep fewer matrices of scores, and what does it cost?"};
  const Rows all = rows_of(rows, StudyPart::ladder);
  double longest = 0;
  for (const Json* row : all) longest = std::max(longest, number_at(*row, "context"));
  const Rows same = rows_of(all, {{"context", longest}});
  if (same.empty()) return unanswered(answer, StudyPart::ladder);
  const double matrix = 4 * number_at(*same.front(), "batch") * longest * longest;
  for (const Json* row : same) {
    answer.add(StudyPart::ladder, "{}: before backward {} ({:.1f} matrices), forward {}, backward {}",
               text_at(*row, "attention"), bytes_at(*row, kSaved), number_at(*row, kSaved) / matrix,
               ms_at(*row, kForward), ms_at(*row, kBackward));
  }
  const Json& most = **std::ranges::max_element(same, {}, [](const Json* row) { return number_at(*row, kSaved); });
  const Json& least = **std::ranges::min_element(same, {}, [](const Json* row) { return number_at(*row, kSaved); });
  const double time_ratio = (number_at(most, kForward) + number_at(most, kBackward)) /
                            (number_at(least, kForward) + number_at(least, kBackward));
  answer.say(
      "At {} tokens {} attention keeps {} for backward, {} attention {}: {} less. Forward and backward together are "
      "then {}.",
      longest, text_at(most, "attention"), bytes_at(most, kSaved), text_at(least, "attention"), bytes_at(least, kSaved),
      times(number_at(most, kSaved) / number_at(least, kSaved)),
      time_ratio >= 1 ? times(time_ratio) + " as fast" : times(1 / time_ratio) + " as long");
  return answer;
}

StudyAnswer flash(const StudyRows& rows) {
  StudyAnswer answer{kAttentionTopic, "How far does tiled attention reach?"};
  const Rows all = rows_of(rows, StudyPart::flash);
  if (all.empty()) return unanswered(answer, StudyPart::flash);
  std::vector<std::pair<double, double>> memory;
  for (const Json* row : all) {
    memory.emplace_back(number_at(*row, "context"), number_at(*row, kSaved));
    answer.add(StudyPart::flash, "{} tokens: forward {}, backward {}, before backward {}", number_at(*row, "context"),
               ms_at(*row, kForward), ms_at(*row, kBackward), bytes_at(*row, kSaved));
  }
  answer.say("At {} tokens, the longest measured, it keeps {} for backward.", memory.back().first,
             bytes(memory.back().second));
  const double power = exponent(memory);
  if (has(power))
    answer.say("Its memory grows with the sequence to the power {:.2f}{}", power,
               power < 1.2 ? ": linearly, for no matrix of scores is stored." : ".");
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_attention(const StudyRows& rows) {
  return {grid(rows), out_of_memory(rows), accounting(rows), ladder(rows), flash(rows)};
}

}  // namespace ridgepoint::answers
