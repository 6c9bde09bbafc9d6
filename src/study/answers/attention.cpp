// Attention alone: time and memory over sequence lengths, what it allocates, and what removes the matrices of scores.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "study/answers/rows.h"
#include "study/answers/topics.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kAttentionTopic = "Attention";
constexpr const char* kForward = "forward_ms.median";
constexpr const char* kBackward = "backward_ms.median";
constexpr const char* kSaved = "memory_bytes.before_backward";
// At shorter sequences the operands, which are linear, are a part of the memory of any attention.
constexpr double kQuadraticMemoryFrom = 4096;

StudyAnswer grid(const StudyRows& rows) {
  const char* question = "How do the time of attention, and the memory it keeps for backward, grow with the sequence?";
  const Rows all = rows_of(rows, StudyPart::attention_grid);
  StudyAnswer answer{.topic = kAttentionTopic, .question = question};
  std::vector<std::pair<double, double>> time, memory;
  std::vector<double> widths;
  for (const Json* row : all) widths.push_back(number(*row, "model.d_model"));
  if (widths.empty()) return unanswered(kAttentionTopic, question, StudyPart::attention_grid);
  const double width = std::ranges::find(widths, 64.0) != widths.end() ? 64 : widths.front();
  Rows shown = all;
  std::ranges::stable_partition(shown, [&](const Json* row) { return number(*row, "model.d_model") == width; });
  for (const Json* row : shown) {
    answer.evidence.push_back(
        {StudyPart::attention_grid,
         fmt::format("d {}, {} tokens: forward {}, backward {}, before backward {}, peak {}",
                     number(*row, "model.d_model"), number(*row, "context"), ms(number(*row, kForward)),
                     ms(number(*row, kBackward)), bytes(number(*row, kSaved)),
                     bytes(number(*row, "memory_bytes.peak_allocated")))});
    if (number(*row, "model.d_model") != width) continue;
    time.emplace_back(number(*row, "context"), number(*row, kForward) + number(*row, kBackward));
    memory.emplace_back(number(*row, "context"), number(*row, kSaved));
  }
  if (time.size() < 2) {
    answer.sentence = fmt::format("Only one sequence length ran, so nothing can be said about growth: {}.",
                                  answer.evidence.front().text);
    return answer;
  }
  const std::span<const std::pair<double, double>> last_memory = std::span(memory).last(2);
  const double of_time = exponent(std::span(time).last(2));
  const double of_memory = exponent(last_memory);
  answer.sentence = fmt::format(
      "From {} to {} tokens (d {}) the time grows with the sequence to the power {:.2f} and the memory to the power "
      "{:.2f}: {}.",
      last_memory.front().first, last_memory.back().first, width, of_time, of_memory,
      of_memory > 1.8 ? "the stored matrices of scores, which are quadratic, are nearly all of it"
                      : "the operands, which are linear, still count");
  const double longest = last_memory.back().first;
  const bool is_like = of_memory > 1.9 && of_memory < 2.1;
  answer.elsewhere.push_back(
      {"a800_80gb", "Memory before backward grows 4-fold for twice the length.",
       is_like                          ? StudyClaim::Verdict::confirmed
       : longest < kQuadraticMemoryFrom ? StudyClaim::Verdict::not_comparable
                                        : StudyClaim::Verdict::contradicted,
       fmt::format("Here it grows {:.2f}-fold up to {} tokens.", std::pow(2, of_memory), longest)});
  return answer;
}

// What the run of the longest sequence said.
std::string confirmation(std::string_view confirmed) {
  if (confirmed == "yes") return ", and a run of it did fit";
  if (confirmed == "no") return ", but a run of it did not fit";
  return "; no run has tried it";
}

StudyAnswer out_of_memory(const StudyRows& rows) {
  const char* question = "Where does attention run out of memory?";
  StudyAnswer answer{.topic = kAttentionTopic, .question = question};
  double shortest = std::nan("");
  double limit_of_shortest = std::nan("");
  if (const auto all = rows.find(StudyPart::attention_grid); all != rows.end()) {
    for (const Json& row : all->second) {
      if (text(row, "status") != "oom") continue;
      const double length = number(row, "context");
      const double limit = number(row, "device.memory_limit_bytes");
      if (!has(shortest) || length < shortest) shortest = length, limit_of_shortest = limit;
      answer.evidence.push_back(
          {StudyPart::attention_grid, fmt::format("d {}, {} tokens: out of memory{}", number(row, "model.d_model"),
                                                  length, has(limit) ? ", with a limit of " + bytes(limit) : "")});
    }
  }
  const Rows limits = rows_of(rows, StudyPart::attention_limit);
  for (const Json* row : limits) {
    answer.evidence.push_back(
        {StudyPart::attention_limit,
         fmt::format("{}: {} tokens fit ({}), {} do not; confirmed by a run: {}", text(*row, "attention"),
                     number(*row, "longest_sequence"), bytes(number(*row, "peak_allocated_bytes")),
                     number(*row, "next_sequence"), text(*row, "confirmed"))});
  }
  if (answer.evidence.empty() && rows_of(rows, StudyPart::attention_grid).empty())
    return unanswered(kAttentionTopic, question, StudyPart::attention_grid);
  answer.sentence = has(shortest)
                        ? fmt::format("In the grid the shortest sequence that does not fit{} is {} tokens.",
                                      has(limit_of_shortest) ? " into " + bytes(limit_of_shortest) : "", shortest)
                        : "Every row of the grid fits.";
  if (!limits.empty() && has(number(*limits.front(), "longest_sequence"))) {
    const double limit = number(*limits.front(), "memory_bytes");
    answer.sentence +=
        fmt::format(" The longest that fits{} is {} tokens for {} attention by the prediction{}.",
                    has(limit) ? " into " + bytes(limit) : "", number(*limits.front(), "longest_sequence"),
                    text(*limits.front(), "attention"), confirmation(text(*limits.front(), "confirmed")));
  }
  answer.elsewhere.push_back({"rtx_a4500_20gb", "On a 20 GB card 16,384 tokens run out of memory.",
                              StudyClaim::Verdict::not_comparable, "The memory of the device is another one."});
  return answer;
}

StudyAnswer accounting(const StudyRows& rows) {
  const char* question = "What does attention allocate, and does the sum agree with the measurement?";
  const Rows all = rows_of(rows, StudyPart::accounting, {{"moment", "before backward"}});
  if (all.empty()) return unanswered(kAttentionTopic, question, StudyPart::accounting);
  StudyAnswer answer{.topic = kAttentionTopic, .question = question};
  double predicted = 0, measured = 0, quadratic = 0;
  int matrices = 0;
  for (const Json* row : all) {
    const double size = number(*row, "measured_bytes");
    predicted += number(*row, "predicted_bytes");
    measured += size;
    if (text(*row, "shape").ends_with("S S")) quadratic += size, ++matrices;
    answer.evidence.push_back(
        {StudyPart::accounting, fmt::format("{} [{}]: {} = {}", text(*row, "component"), text(*row, "shape"),
                                            text(*row, "formula"), bytes(size))});
  }
  const double allocated = number(*all.front(), "allocated_bytes");
  answer.sentence = fmt::format(
      "Before backward {} attention at {} tokens holds {} in {} tensors, {} of it in {} of scores. The "
      "formulas give {}: {}.",
      text(*all.front(), "attention"), number(*all.front(), "sequence"), bytes(allocated), all.size(),
      percent(quadratic / measured), matrices == 1 ? "1 matrix" : fmt::format("{} matrices", matrices),
      bytes(predicted),
      predicted == measured && measured == allocated
          ? "the measured bytes exactly"
          : fmt::format("{} off the measured bytes", percent(std::abs(predicted / allocated - 1))));
  answer.elsewhere.push_back(
      {"a800_80gb", "Attention with three stored matrices of scores keeps 24,897 MiB before backward at 16,384 tokens.",
       matrices == 3 ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::not_comparable,
       fmt::format("Here {} are stored, and {} kept.",
                   matrices == 1 ? "1 matrix" : fmt::format("{} matrices", matrices), bytes(measured))});
  return answer;
}

StudyAnswer ladder(const StudyRows& rows) {
  const char* question = "What do variants save that keep fewer matrices of scores, and what does it cost?";
  const Rows all = rows_of(rows, StudyPart::ladder);
  double longest = 0;
  for (const Json* row : all) longest = std::max(longest, number(*row, "context"));
  const Rows same = rows_of(all, {{"context", longest}});
  if (same.empty()) return unanswered(kAttentionTopic, question, StudyPart::ladder);
  StudyAnswer answer{.topic = kAttentionTopic, .question = question};
  const double matrix = 4 * number(*same.front(), "batch") * longest * longest;
  for (const Json* row : same) {
    answer.evidence.push_back(
        {StudyPart::ladder,
         fmt::format("{}: before backward {} ({:.1f} matrices), forward {}, backward {}", text(*row, "attention"),
                     bytes(number(*row, kSaved)), number(*row, kSaved) / matrix, ms(number(*row, kForward)),
                     ms(number(*row, kBackward)))});
  }
  const Json& most = **std::ranges::max_element(same, {}, [](const Json* row) { return number(*row, kSaved); });
  const Json& least = **std::ranges::min_element(same, {}, [](const Json* row) { return number(*row, kSaved); });
  const double time_ratio =
      (number(most, kForward) + number(most, kBackward)) / (number(least, kForward) + number(least, kBackward));
  answer.sentence = fmt::format(
      "At {} tokens {} attention keeps {} for backward, {} attention {}: {} less. Forward and backward together are "
      "then {}.",
      longest, text(most, "attention"), bytes(number(most, kSaved)), text(least, "attention"),
      bytes(number(least, kSaved)), times(number(most, kSaved) / number(least, kSaved)),
      time_ratio >= 1 ? times(time_ratio) + " as fast" : times(1 / time_ratio) + " as long");
  return answer;
}

StudyAnswer flash(const StudyRows& rows) {
  const char* question = "How far does tiled attention reach?";
  const Rows all = rows_of(rows, StudyPart::flash);
  if (all.empty()) return unanswered(kAttentionTopic, question, StudyPart::flash);
  StudyAnswer answer{.topic = kAttentionTopic, .question = question};
  std::vector<std::pair<double, double>> memory;
  for (const Json* row : all) {
    memory.emplace_back(number(*row, "context"), number(*row, kSaved));
    answer.evidence.push_back(
        {StudyPart::flash,
         fmt::format("{} tokens: forward {}, backward {}, before backward {}", number(*row, "context"),
                     ms(number(*row, kForward)), ms(number(*row, kBackward)), bytes(number(*row, kSaved)))});
  }
  answer.sentence = fmt::format("At {} tokens, the longest measured, it keeps {} for backward.", memory.back().first,
                                bytes(memory.back().second));
  const double power = exponent(memory);
  if (has(power))
    answer.sentence += fmt::format(" Its memory grows with the sequence to the power {:.2f}{}", power,
                                   power < 1.2 ? ": linearly, for no matrix of scores is stored." : ".");
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_attention(const StudyRows& rows) {
  return {grid(rows), out_of_memory(rows), accounting(rows), ladder(rows), flash(rows)};
}

}  // namespace ridgepoint::answers
