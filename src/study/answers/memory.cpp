// Where the memory goes: peaks, what mixed precision changes, the largest allocations, the sawtooth.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kMemoryTopic = "Memory";

const Json* step_history(const StudyRows& rows) {
  const Rows found = rows_of(rows, StudyPart::memory_step);
  return found.empty() || !field(*found.front(), "memory").is_object() ? nullptr : found.front();
}

// "activation 1.2 GiB (60 %)": the categories of a moment, the largest first, without those below a thousandth.
std::vector<std::string> parts_of(const Json& moment) {
  std::vector<std::pair<std::string, double>> parts;
  for (const auto& [category, size] : field(moment, "by_category").items()) {
    if (size.is_number() && size.get<double>() >= number_at(moment, "allocated_bytes") / 1000)
      parts.emplace_back(category, size.get<double>());
  }
  std::ranges::sort(parts, std::greater(), &std::pair<std::string, double>::second);
  std::vector<std::string> texts;
  for (auto& [category, size] : parts) {
    std::ranges::replace(category, '_', ' ');
    texts.push_back(
        fmt::format("{} {} ({})", category, bytes(size), percent(size / number_at(moment, "allocated_bytes"))));
  }
  return texts;
}

StudyAnswer peak_phase(const StudyRows& rows) {
  StudyAnswer answer{kMemoryTopic, "In which phase of a step is the peak, and what is it made of?"};
  const Json* row = step_history(rows);
  if (row == nullptr) return unanswered(answer, StudyPart::memory_step);
  const Json* peak = nullptr;
  for (const Json& phase : field(*row, "memory.phases")) {
    answer.add(StudyPart::memory_step, "{}: {}: {}", text_at(phase, "name"), bytes_at(phase, "allocated_bytes"),
               fmt::join(parts_of(phase), ", "));
    if (peak == nullptr || number_at(phase, "allocated_bytes") > number_at(*peak, "allocated_bytes")) peak = &phase;
  }
  if (peak == nullptr) return unanswered(answer, StudyPart::memory_step);
  const std::vector<std::string> parts = parts_of(*peak);
  answer.say("A step of {} has its peak, {}, in the {} phase. The largest part is {}{}.", workload(*row),
             bytes_at(*peak, "allocated_bytes"), text_at(*peak, "name"), parts.empty() ? "nothing" : parts.front(),
             parts.size() > 1 ? ", then " + parts[1] : "");
  return answer;
}

StudyAnswer peaks_by_context(const StudyRows& rows) {
  StudyAnswer answer{kMemoryTopic, "What is the peak by context length, in a forward pass and in a step?"};
  const Rows all = rows_of(rows, StudyPart::memory_peaks, {{"dtype", "fp32"}});
  for (const std::string& model : texts_of(all, "model.name")) {
    for (const char* mode : {"forward", "training_forward", "step"}) {
      std::vector<std::pair<double, double>> points;
      std::vector<std::string> parts;
      for (const Json* row : rows_of(all, {{"mode", mode}, {"model.name", model}})) {
        points.emplace_back(number_at(*row, "context"), number_at(*row, kPeak));
        parts.push_back(fmt::format("{} at {}", bytes(points.back().second), points.back().first));
      }
      if (points.empty()) continue;
      answer.add(StudyPart::memory_peaks, "{}, {}, fp32: {}", model, mode, fmt::join(parts, ", "));
      if (mode != std::string_view("step") || points.size() < 2) continue;
      const double growth = points.back().second / points.front().second;
      const double longer = points.back().first / points.front().first;
      answer.say("From {} to {} tokens the peak of a step of {} grows from {} to {}, {}{}", points.front().first,
                 points.back().first, model, bytes(points.front().second), bytes(points.back().second), times(growth),
                 growth < 0.8 * longer   ? ": less than the tokens, as parameters and moments stay."
                 : growth > 1.2 * longer ? ": more than the tokens, as scores grow with their square."
                                         : ": about as the tokens.");
    }
  }
  if (answer.evidence.empty()) return unanswered(answer, StudyPart::memory_peaks);
  if (answer.sentence.empty()) answer.say("{}.", answer.evidence.back().text);
  return answer;
}

StudyAnswer mixed_precision(const StudyRows& rows) {
  StudyAnswer answer{kMemoryTopic, "What does mixed precision change in the peaks?"};
  const Rows all = rows_of(rows, StudyPart::memory_peaks);
  double least = 1, most = -1;
  for (const auto& [full, low] :
       pairs_of(all, {{"dtype", "fp32"}}, {{"dtype", "bf16"}}, {"mode", "context", "model.name"})) {
    const double saved = 1 - number_at(*low, kPeak) / number_at(*full, kPeak);
    answer.add(StudyPart::memory_peaks, "{} x {}, {}: fp32 {}, bf16 {}: {:+.1f} %", text_at(*full, "model.name"),
               number_at(*full, "context"), text_at(*full, "mode"), bytes_at(*full, kPeak), bytes_at(*low, kPeak),
               -100 * saved);
    least = std::min(least, saved);
    most = std::max(most, saved);
  }
  if (answer.evidence.empty()) return unanswered(answer, StudyPart::memory_peaks);
  if (least >= 0) {
    answer.say("bf16 lowers every peak, by {} to {}.", percent(least), percent(most));
  } else if (most <= 0) {
    answer.say("bf16 raises every peak, by {} to {}: the 16-bit copies of the weights outweigh what activations save.",
               percent(-most), percent(-least));
  } else {
    answer.say(
        "bf16 lowers some peaks, by up to {}, and raises others, by up to {}: activations halve, but 16-bit copies of "
        "the "
        "weights stand beside the fp32 ones.",
        percent(most), percent(-least));
  }
  answer.compare("a100_80gb_pcie", "bf16 autocast saves 30 to 35 % of the memory of small.",
                 StudyClaim::Verdict::not_comparable,
                 "That is reserved memory of another program; here allocated peaks change by {:+.1f} to {:+.1f} %.",
                 -100 * most, -100 * least);
  return answer;
}

StudyAnswer residual(const StudyRows& rows) {
  StudyAnswer answer{kMemoryTopic, "How large is one activation of the residual stream?"};
  const Json* row = step_history(rows);
  if (row == nullptr || !has(number_at(*row, "memory.residual_activation.bytes")))
    return unanswered(answer, StudyPart::memory_step);
  const double size = number_at(*row, "memory.residual_activation.bytes");
  const double elements = number_at(*row, "batch") * number_at(*row, "context") * number_at(*row, "model.d_model");
  answer.say("It has {} ({} bytes): {}, for {} x {} x {} elements.", bytes(size), size,
             text_at(*row, "memory.residual_activation.formula"), number_at(*row, "batch"), number_at(*row, "context"),
             number_at(*row, "model.d_model"));
  answer.add(StudyPart::memory_step, "{}: {} bytes for {} elements", workload(*row), size, elements);
  return answer;
}

std::string described_allocation(const Json& allocation) {
  const std::string formula = text_at(allocation, "formula");  // a workspace has none
  return fmt::format("{} by {} in {}{}", bytes_at(allocation, "block_bytes"),
                     text_at(allocation, "op").empty() ? "the allocator" : text_at(allocation, "op"),
                     text_at(allocation, "module").empty() ? "no module" : text_at(allocation, "module"),
                     formula.empty() ? "" : " (" + formula + ")");
}

StudyAnswer largest(const StudyRows& rows) {
  StudyAnswer answer{kMemoryTopic, "What are the largest allocations of a step, and where do they come from?"};
  const Json* row = step_history(rows);
  if (row == nullptr || field(*row, "memory.largest_allocations").empty())
    return unanswered(answer, StudyPart::memory_step);
  std::vector<std::string> first;
  for (const Json& allocation : field(*row, "memory.largest_allocations")) {
    if (answer.evidence.size() == 10) break;
    answer.add(StudyPart::memory_step, "{}, {}, {}", described_allocation(allocation), text_at(allocation, "category"),
               text_at(allocation, "source"));
    if (first.size() < 3) first.push_back(described_allocation(allocation));
  }
  answer.say("The largest are {}.", fmt::join(first, "; "));
  return answer;
}

std::string digits(double ratio) { return ratio < 10 ? fmt::format("{:.2g}", ratio) : fmt::format("{:.0f}", ratio); }

StudyAnswer sawtooth(const StudyRows& rows) {
  StudyAnswer answer{kMemoryTopic,
                     "In repeated forward passes, how long does memory rise and fall, and what bounds the loop?"};
  const Rows found = rows_of(rows, StudyPart::memory_forward_loop);
  const Json* row = found.empty() ? nullptr : found.front();
  const double rise = row == nullptr ? std::nan("") : number_at(*row, "memory.sawtooth.rise_ms");
  const double fall = row == nullptr ? std::nan("") : number_at(*row, "memory.sawtooth.fall_ms");
  if (!has(rise) || !has(fall) || fall <= 0) return unanswered(answer, StudyPart::memory_forward_loop);
  const double in_time = rise / fall;
  const double in_events =
      number_at(*row, "memory.sawtooth.rise_events") / number_at(*row, "memory.sawtooth.fall_events");
  std::string verdict = text_at(*row, "memory.sawtooth.verdict");
  std::ranges::replace(verdict, '_', '-');
  answer.say(
      "Memory rises for {} and falls for {}: {} to 1 in time, {} to 1 in events. The device is busy {} of the "
      "time; the loop is {}.",
      ms(rise), ms(fall), digits(in_time), digits(in_events), percent(number_at(*row, "memory.sawtooth.busy_share")),
      verdict.empty() ? "not judged" : verdict);
  answer.add(StudyPart::memory_forward_loop, "{}: {} cycles of {}", workload(*row),
             number_at(*row, "memory.sawtooth.cycles"), bytes_at(*row, "memory.sawtooth.height_bytes"));
  const bool is_equal = in_time > 1 / 1.5 && in_time < 1.5;
  answer.compare("rtx_a4500_20gb", "Rise and fall last about equally long.", agreement(is_equal),
                 "Here it is {} to 1 in time. The source does not say its axis; the "
                 "common viewer's counts events, and there it is {} to 1.",
                 digits(in_time), digits(in_events));
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_memory(const StudyRows& rows) {
  return {peak_phase(rows), peaks_by_context(rows), mixed_precision(rows),
          residual(rows),   largest(rows),          sawtooth(rows)};
}

}  // namespace ridgepoint::answers
