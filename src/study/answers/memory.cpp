// Where the memory goes: peaks, the effect of mixed precision, the largest allocations, the sawtooth.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kMemoryTopic = "Memory";

const Json* step_history(const PartRows& rows) {
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

StudyAnswer peak_phase(const PartRows& rows) {
  StudyAnswer answer{kMemoryTopic, "In which phase of a step is the peak, and what is it made of?"};
  const Json* row = step_history(rows);
  if (row == nullptr) return unanswered(answer, StudyPart::memory_step);
  for (const Json& phase : field(*row, "memory.phases")) {
    answer.add(StudyPart::memory_step, "{}: {}: {}", text_at(phase, "name"), bytes_at(phase, "allocated_bytes"),
               fmt::join(parts_of(phase), ", "));
  }
  const Json* peak = largest_of(field(*row, "memory.phases"), "allocated_bytes");
  if (peak == nullptr) return unanswered(answer, StudyPart::memory_step);
  const std::vector<std::string> parts = parts_of(*peak);
  answer.say("A step of {} has its peak, {}, in the {} phase. The largest part is {}{}.", workload(*row),
             bytes_at(*peak, "allocated_bytes"), text_at(*peak, "name"), parts.empty() ? "nothing" : parts.front(),
             parts.size() > 1 ? ", then " + parts[1] : "");
  return answer;
}

// The bytes of the categories at the peak. If the row has the groups of the peak, 16-bit copies of weights are a part
// of their own: casts to 2 bytes whose size depends on neither batch (B) nor sequence (S).
std::map<std::string, double> parts_of_peak(const Json& row) {
  std::map<std::string, double> parts;
  for (const auto& [category, size] : field(row, "peak_by_category").items()) {
    if (size.is_number()) parts[category] = size.get<double>();
  }
  const Json* peak = largest_of(field(row, "memory.phases"), "allocated_bytes");
  if (peak == nullptr) return parts;
  for (const Json& group : field(*peak, "groups")) {
    const std::string category = text_at(group, "category"), formula = text_at(group, "formula");
    const bool is_copy = text_at(group, "op") == "cast" && category != "gradient" && formula.starts_with("2 ") &&
                         formula.find_first_of("BS") == std::string::npos;
    if (!is_copy) continue;
    parts[category] -= number_at(group, "bytes");
    parts["low-precision copies of weights"] += number_at(group, "bytes");
  }
  return parts;
}

// ": activation +2.3 GiB, workspace -32.0 MiB": the three largest differences of the parts of the peak, without those
// below a tenth of the largest. Empty if a row lacks the parts of its peak.
std::string changed_parts(const Json& from, const Json& to) {
  const std::map<std::string, double> before = parts_of_peak(from), after = parts_of_peak(to);
  if (before.empty() || after.empty()) return "";
  std::vector<std::pair<double, std::string>> changes;
  for (const auto& [part, size] : after) {
    const auto was = before.find(part);
    if (const double change = size - (was == before.end() ? 0 : was->second); change != 0)
      changes.emplace_back(change, part);
  }
  std::ranges::stable_sort(changes, std::greater(), [](const auto& each) { return std::abs(each.first); });
  std::vector<std::string> texts;
  for (auto& [change, category] : changes) {
    if (texts.size() == 3 || std::abs(change) < 0.1 * std::abs(changes.front().first)) break;
    std::ranges::replace(category, '_', ' ');
    texts.push_back(fmt::format("{} {}{}", category, change > 0 ? "+" : "-", bytes(std::abs(change))));
  }
  return texts.empty() ? "" : fmt::format(": {}", fmt::join(texts, ", "));
}

StudyAnswer peaks_by_context(const PartRows& rows) {
  StudyAnswer answer{kMemoryTopic, "What is the peak by context length, in a forward pass and in a step?"};
  const Rows all = rows_of(rows, StudyPart::memory_peaks, {{"dtype", "fp32"}});
  const Rows failed = too_large(rows, StudyPart::memory_peaks);
  for (const std::string& model : texts_of(all, "model.name")) {
    for (const char* mode : {"forward", "training_forward", "step"}) {
      Rows points = rows_of(all, {{"mode", mode}, {"model.name", model}});
      if (points.empty()) continue;
      points = sorted_by(rows_like(points, *points.front(), {"batch"}), "context");
      std::vector<std::string> parts;
      for (const Json* row : points)
        parts.push_back(fmt::format("{} at {}", bytes_at(*row, kPeak), number_at(*row, "context")));
      answer.add(StudyPart::memory_peaks, "{}, {}, fp32: {}", model, mode, fmt::join(parts, ", "));
      if (mode == std::string_view("training_forward")) continue;
      const Json &least = *points.front(), &most = *points.back();
      const std::string pass = fmt::format("the peak of {} of {}", pass_name(mode), model);
      if (points.size() == 1) {
        answer.say("At {} tokens {} is {}.", number_at(least, "context"), pass, bytes_at(least, kPeak));
      } else {
        answer.say("From {} to {} tokens, {} as many, {} goes from {} to {}, {} as much{}.",
                   number_at(least, "context"), number_at(most, "context"),
                   times(number_at(most, "context") / number_at(least, "context")), pass, bytes_at(least, kPeak),
                   bytes_at(most, kPeak), times(number_at(most, kPeak) / number_at(least, kPeak)),
                   changed_parts(least, most));
      }
      for (const Json* row : rows_like(failed, least, {"model.name", "mode", "dtype", "batch"}))
        answer.say("At {} tokens it runs out of memory, with a planned peak of {}.", number_at(*row, "context"),
                   bytes_at(*row, kPlannedPeak));
    }
  }
  if (answer.evidence.empty()) return unanswered(answer, StudyPart::memory_peaks);
  if (answer.sentence.empty()) answer.say("{}.", answer.evidence.back().text);
  for (const Json* row : failed)
    answer.add(StudyPart::memory_peaks, "{}, {}: out of memory, with a planned peak of {}", workload(*row),
               text_at(*row, "mode"), bytes_at(*row, kPlannedPeak));
  return answer;
}

StudyAnswer mixed_precision(const PartRows& rows) {
  StudyAnswer answer{kMemoryTopic, "What does mixed precision change in the peaks?"};
  struct Change {
    double saved = 0;
    const Json *full = nullptr, *low = nullptr;
  };
  std::vector<Change> changes;
  for (const auto& [full, low] : pairs_of(rows_of(rows, StudyPart::memory_peaks), {{"dtype", "fp32"}},
                                          {{"dtype", "bf16"}}, {"mode", "context", "batch", "model.name"})) {
    const double saved = 1 - number_at(*low, kPeak) / number_at(*full, kPeak);
    if (!has(saved)) continue;
    answer.add(StudyPart::memory_peaks, "{}, {} tokens, {}: fp32 {}, bf16 {}: {:+.1f} %", text_at(*full, "model.name"),
               number_at(*full, "context"), text_at(*full, "mode"), bytes_at(*full, kPeak), bytes_at(*low, kPeak),
               -100 * saved);
    changes.push_back({saved, full, low});
  }
  if (changes.empty()) return unanswered(answer, StudyPart::memory_peaks);
  const auto [least, most] = std::ranges::minmax(changes, {}, &Change::saved);
  const auto where = [](const Change& change) {
    return fmt::format("{}, {} tokens, {}{}", text_at(*change.full, "model.name"), number_at(*change.full, "context"),
                       text_at(*change.full, "mode"), changed_parts(*change.full, *change.low));
  };
  if (least.saved == 0 && most.saved == 0) {
    answer.say("bf16 changes no peak.");
  } else if (least.saved > 0) {
    answer.say("bf16 lowers every peak, by {} to {} ({}).", percent(least.saved), percent(most.saved), where(most));
  } else if (most.saved < 0) {
    answer.say("bf16 raises every peak, by {} to {} ({}).", percent(-most.saved), percent(-least.saved), where(least));
  } else {
    if (most.saved > 0) answer.say("bf16 lowers peaks by up to {} ({}).", percent(most.saved), where(most));
    if (least.saved < 0) answer.say("bf16 raises peaks by up to {} ({}).", percent(-least.saved), where(least));
  }
  // The source has a forward pass of small at 256 tokens.
  const Change* small = nullptr;
  for (const Change& change : changes) {
    if (text_at(*change.full, "model.name") != "small" || text_at(*change.full, "mode") != "forward") continue;
    if (small == nullptr || number_at(*change.full, "context") == 256) small = &change;
  }
  if (small == nullptr) return answer;
  const char* reserved = "memory_bytes.peak_reserved";
  const double saved = 1 - number_at(*small->low, reserved) / number_at(*small->full, reserved);
  judge(answer,
        {.source = "a100_80gb_pcie",
         .text = "bf16 autocast saves 30 to 35 % of the memory of small.",
         .figures = {{0.295, 0.355}},
         .of = {{"batch", 64}, {"context", 256}},
         .is_of_card = false},
        *small->full,
        {.figures = {exactly(saved)},
         .text = fmt::format("the reserved memory of a forward pass changes by {:+.1f} %", -100 * saved)});
  return answer;
}

StudyAnswer residual(const PartRows& rows) {
  StudyAnswer answer{kMemoryTopic, "How large is one activation of the residual stream?"};
  const Json* row = step_history(rows);
  if (row == nullptr || !has(number_at(*row, "memory.residual_activation.bytes")))
    return unanswered(answer, StudyPart::memory_step);
  const double size = number_at(*row, "memory.residual_activation.bytes");
  const double elements = number_at(*row, "batch") * number_at(*row, "context") * number_at(*row, "model.d_model");
  answer.say("One activation has {} ({} bytes): {}, for {} x {} x {} elements.", bytes(size), size,
             text_at(*row, "memory.residual_activation.formula"), number_at(*row, "batch"), number_at(*row, "context"),
             number_at(*row, "model.d_model"));
  answer.add(StudyPart::memory_step, "{}: {} bytes for {} elements", workload(*row), size, elements);
  return answer;
}

// "5.00 MiB, gradient, made in backward by matmul of lm_head at rules/matmul.cpp:66 (4 V D)", without what is not
// known.
std::string described_allocation(const Json& allocation) {
  const auto with = [&](std::string_view before, const char* path, std::string_view after = "") {
    std::string text = text_at(allocation, path);
    std::ranges::replace(text, '_', path == std::string_view("category") ? ' ' : '_');
    return text.empty() ? "" : fmt::format("{}{}{}", before, text, after);
  };
  const bool is_of_op = !text_at(allocation, "op").empty();
  return fmt::format("{}{}, made{}{}{}{}{}", bytes_at(allocation, "block_bytes"), with(", ", "category"),
                     with(" in ", "phase"), is_of_op ? with(" by ", "op") : " by the allocator", with(" of ", "module"),
                     with(" at ", "source"), with(" (", "formula", ")"));
}

StudyAnswer largest(const PartRows& rows) {
  StudyAnswer answer{kMemoryTopic, "What are the largest allocations of a step, and where do they come from?"};
  const Json* row = step_history(rows);
  if (row == nullptr || field(*row, "memory.largest_allocations").empty())
    return unanswered(answer, StudyPart::memory_step);
  constexpr std::size_t kInSentence = 3, kShown = 10;
  std::vector<std::string> first;
  for (const Json& allocation : field(*row, "memory.largest_allocations")) {
    if (answer.evidence.size() < kShown) answer.add(StudyPart::memory_step, "{}", described_allocation(allocation));
    if (first.size() < kInSentence) first.push_back(described_allocation(allocation));
  }
  answer.say("The largest of {} is {}.", workload(*row), first.front());
  first.erase(first.begin());
  if (!first.empty()) answer.say("Then come {}.", fmt::join(first, "; "));
  return answer;
}

StudyAnswer saved_by_block(const PartRows& rows) {
  StudyAnswer answer{kMemoryTopic,
                     "What does one block save for backward, by which ops, and how large are its gradients?"};
  const Json* row = step_history(rows);
  const double saved = row == nullptr ? std::nan("") : number_at(*row, "memory.block.saved_bytes");
  if (!(saved > 0)) return unanswered(answer, StudyPart::memory_step);
  constexpr std::size_t kShown = 5;
  double of_shown = 0;
  for (const Json& group : field(*row, "memory.block.saved")) {
    if (answer.evidence.size() == kShown) break;
    of_shown += number_at(group, "bytes");
    answer.add(StudyPart::memory_step, "{} in {} ({}): {}, {}", text_at(group, "op"), text_at(group, "module"),
               text_at(group, "formula"), bytes_at(group, "bytes"), percent(number_at(group, "bytes") / saved));
  }
  answer.say("{} of {} saves {} for backward, {} of it in the {} largest below.", text_at(*row, "memory.block.name"),
             workload(*row), bytes(saved), percent(of_shown / saved), answer.evidence.size());
  if (const double gradients = number_at(*row, "memory.block.gradient_bytes"); has(gradients))
    answer.say("Its gradients have {}.", bytes(gradients));
  return answer;
}

std::string digits(double ratio) { return ratio < 10 ? fmt::format("{:.2g}", ratio) : fmt::format("{:.0f}", ratio); }

StudyAnswer sawtooth(const PartRows& rows) {
  StudyAnswer answer{kMemoryTopic,
                     "In repeated forward passes, how long does memory rise and fall, and what bounds the loop?"};
  const Rows found = rows_of(rows, StudyPart::memory_forward_loop);
  const Json* row = found.empty() ? nullptr : found.front();
  const double rise = row == nullptr ? std::nan("") : number_at(*row, "memory.sawtooth.rise_ms");
  const double fall = row == nullptr ? std::nan("") : number_at(*row, "memory.sawtooth.fall_ms");
  const bool has_time = has(rise) && has(fall) && fall > 0;
  const bool has_events = row != nullptr && number_at(*row, "memory.sawtooth.fall_events") > 0;
  if (!has_events || !(has_time || is_planned(*row))) return unanswered(answer, StudyPart::memory_forward_loop);
  const double in_time = rise / fall;
  const double in_events =
      number_at(*row, "memory.sawtooth.rise_events") / number_at(*row, "memory.sawtooth.fall_events");
  const double in_steps =  // rows of earlier versions have none
      number_at(*row, "memory.sawtooth.rise_steps") / number_at(*row, "memory.sawtooth.fall_steps");
  const std::string in_viewer =
      has(in_steps) ? fmt::format(", and {} to 1 on the axis of pytorch.org/memory_viz", digits(in_steps)) : "";
  std::string verdict = text_at(*row, "memory.sawtooth.verdict");
  std::ranges::replace(verdict, '_', '-');
  answer.add(StudyPart::memory_forward_loop, "{}: {} cycles of {}", workload(*row),
             number_at(*row, "memory.sawtooth.cycles"), bytes_at(*row, "memory.sawtooth.height_bytes"));
  if (!has_time) {
    answer.say("Memory rises and falls {} to 1 in events{}.", digits(in_events), in_viewer);
    return answer;
  }
  answer.say(
      "Memory rises for {} and falls for {}: {} to 1 in time, {} to 1 in events{}. The device is busy {} of the "
      "time; the loop is {}.",
      ms(rise), ms(fall), digits(in_time), digits(in_events), in_viewer,
      percent(number_at(*row, "memory.sawtooth.busy_share")), verdict.empty() ? "not judged" : verdict);
  const auto is_equal = [](double ratio) { return ratio >= 1 / 1.5 && ratio <= 1.5; };
  const bool is_by_axis = has(in_steps) && is_equal(in_steps) && !is_equal(in_time);
  judge(answer,
        {.source = "rtx_a4500_20gb",
         .text = "Rise and fall last about equally long.",
         .figures = {{1 / 1.5, 1.5}},
         .of = {{"dtype", "bf16"}},
         .is_of_card = !has(in_steps)},  // that axis counts events
        *row,
        {.figures = {exactly(has(in_steps) ? in_steps : in_time)},
         .text =
             fmt::format("it is {} to 1 in time, {} to 1 in events{}{}", digits(in_time), digits(in_events), in_viewer,
                         is_by_axis ? "; that axis counts events, and makes rise and fall look equal" : ""),
         .differences = {"the source does not state its axis"}});
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_memory(const PartRows& rows) {
  return {peak_phase(rows), peaks_by_context(rows), mixed_precision(rows), saved_by_block(rows),
          residual(rows),   largest(rows),          sawtooth(rows)};
}

}  // namespace ridgepoint::answers
