// Attention alone: time and memory over sequence lengths, its allocations, and the effect of storing fewer matrices of
// scores.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspect/published/published_rows.h"
#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kAttentionTopic = "Attention";
constexpr const char* kForward = "forward_ms.median";
constexpr const char* kBackward = "backward_ms.median";
constexpr const char* kSaved = "memory_bytes.before_backward";

// The bytes of one matrix of scores, B x H x S x S elements of the row's type.
double score_matrix_bytes(const Json& row) {
  const std::string dtype = text_at(row, "dtype");
  const double sequence = number_at(row, "context");
  const double element = dtype == "bf16" || dtype == "fp16" ? 2 : 4;
  return element * number_at(row, "batch") * number_at(row, "model.heads") * sequence * sequence;
}

// " (3.0 matrices of scores)": the saved tensors in units of one matrix; empty if a size is not known.
std::string in_matrices(const Json& row) {
  const double count = number_at(row, kSaved) / score_matrix_bytes(row);
  if (!has(count)) return "";
  return count < 0.1 ? fmt::format(" ({:.2g} matrices of scores)", count)
                     : fmt::format(" ({:.1f} matrices of scores)", count);
}

StudyAnswer grid(const PartRows& rows) {
  StudyAnswer answer{kAttentionTopic,
                     "How do the time of attention, and the memory it keeps for backward, grow with the sequence?"};
  const Rows all = rows_of(rows, StudyPart::attention_grid);
  std::vector<std::pair<double, double>> time, memory;
  std::vector<double> widths;
  for (const Json* row : all) widths.push_back(number_at(*row, "model.d_model"));
  if (widths.empty()) return unanswered(answer, StudyPart::attention_grid);
  const double width = std::ranges::find(widths, 64.0) != widths.end() ? 64 : widths.front();
  Rows shown = sorted_by(all, "context");
  std::ranges::stable_partition(shown, [&](const Json* row) { return number_at(*row, "model.d_model") == width; });
  for (const Json* row : shown) {
    answer.add(StudyPart::attention_grid, "d {}, {} tokens: forward {}, backward {}, before backward {}, peak {}",
               number_at(*row, "model.d_model"), number_at(*row, "context"), ms_at(*row, kForward),
               ms_at(*row, kBackward), bytes_at(*row, kSaved), bytes_at(*row, "memory_bytes.peak_allocated"));
  }
  const Rows of_width = rows_like(shown, *shown.front(), {"model.d_model", "attention", "dtype", "batch", "compile"});
  for (const Json* row : of_width) {
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
  const Json& longest = *of_width.back();
  std::string in_doubt = doubt(longest, "forward_ms");
  if (in_doubt.empty()) in_doubt = doubt(*of_width[of_width.size() - 2], "forward_ms");
  answer.say(
      "From {} to {} tokens (d {}) the time grows with the sequence to the power {:.2f}{} and the memory to the power "
      "{:.2f}.",
      last_memory.front().first, last_memory.back().first, width, of_time, in_doubt, of_memory);
  if (const std::string matrices = in_matrices(longest); !matrices.empty())
    answer.say("At {} tokens it keeps {}{}.", last_memory.back().first, bytes_at(longest, kSaved), matrices);
  judge(answer,
        {.source = "a800_80gb",
         .text = "Memory before backward grows 4-fold for twice the length, from 8,192 to 16,384 tokens.",
         .figures = {{3.9, 4.1}},
         .of = {{"context", 16384}, {"attention", "naive"}, {"batch", 8}},
         .is_of_card = false},
        longest,
        {.figures = {exactly(last_memory.back().second / last_memory.front().second)},
         .text = fmt::format("it grows {:.2f}-fold from {} to {} tokens",
                             last_memory.back().second / last_memory.front().second, last_memory.front().first,
                             last_memory.back().first),
         .differences = {2 * last_memory.front().first == last_memory.back().first ? "" : "not twice the length"}});
  return answer;
}

// The results of running the longest sequence and the next one.
std::string confirmation(const Json& row) {
  const std::string confirmed = text_at(row, "confirmed"), remark = text_at(row, "remark");
  if (confirmed == "yes")
    return fmt::format("runs of {} and {} tokens agree with it", number_at(row, "longest_sequence"),
                       number_at(row, "next_sequence"));
  if (confirmed != "no") return "no run has tried it";
  return remark.empty() ? "runs do not agree with it" : fmt::format("in a run, {}", remark.substr(0, remark.find(';')));
}

// "20.0 GiB": the limit that a row had; empty for none.
std::string limit_of(const Json& row) {
  const double limit = number_at(row, "device.memory_limit_bytes");
  return has(limit) ? bytes(limit) : "";
}

StudyAnswer out_of_memory(const PartRows& rows) {
  StudyAnswer answer{kAttentionTopic, "Where does attention run out of memory?"};
  const Json* shortest = nullptr;  // of those that do not fit
  const Json* claimed = nullptr;   // a row of the length of the published claim
  std::size_t fitting = 0, failed = 0;
  if (const auto all = rows.find(StudyPart::attention_grid); all != rows.end()) {
    for (const Json* each : all->second) {
      const Json& row = *each;
      const std::string status = text_at(row, "status");
      fitting += status == "ok" ? 1 : 0;
      failed += status == "ok" || status == "oom" ? 0 : 1;
      const double length = number_at(row, "context");
      if (length == 16384 && (claimed == nullptr || status == "oom")) claimed = &row;
      if (status != "oom") continue;
      if (shortest == nullptr || length < number_at(*shortest, "context")) shortest = &row;
      answer.add(StudyPart::attention_grid, "d {}, {} tokens: out of memory{}", number_at(row, "model.d_model"), length,
                 limit_of(row).empty() ? "" : ", with a limit of " + limit_of(row));
    }
  }
  const Rows limits = rows_of(rows, StudyPart::attention_limit);
  for (const Json* row : limits) {
    answer.add(StudyPart::attention_limit, "{}: by the plan {} tokens fit ({}), {} do not; {}",
               text_at(*row, "attention"), number_at(*row, "longest_sequence"), bytes_at(*row, "peak_allocated_bytes"),
               number_at(*row, "next_sequence"), confirmation(*row));
  }
  if (answer.evidence.empty() && fitting == 0) return unanswered(answer, StudyPart::attention_grid);
  if (shortest != nullptr) {
    answer.say("In the grid the shortest sequence that does not fit{} is {} tokens (d {}).",
               limit_of(*shortest).empty() ? "" : " into " + limit_of(*shortest), number_at(*shortest, "context"),
               number_at(*shortest, "model.d_model"));
  } else if (fitting > 0) {
    answer.say("No row of the grid ran out of memory: {} fit{}.", fitting,
               failed == 0 ? "" : fmt::format(", and {} failed otherwise", failed));
  }
  if (!limits.empty() && has(number_at(*limits.front(), "longest_sequence"))) {
    const double limit = number_at(*limits.front(), "memory_bytes");
    answer.say("The longest that fits{} by the plan is {} tokens for {} attention; {}.",
               has(limit) ? " into " + bytes(limit) : "", number_at(*limits.front(), "longest_sequence"),
               text_at(*limits.front(), "attention"), confirmation(*limits.front()));
  }
  if (claimed == nullptr) return answer;
  const bool is_oom = text_at(*claimed, "status") == "oom";
  const double own_limit = number_at(*claimed, "device.memory_limit_bytes");
  const double memory = has(own_limit) ? own_limit : number_at(*claimed, "device.total_memory_bytes");
  const bool is_as_large = memory > 18e9 && memory < 22e9;
  judge(answer,
        {.source = "rtx_a4500_20gb",
         .text = "On a 20 GB card 16,384 tokens run out of memory.",
         .figures = {{1, 1}},
         .of = {{"batch", 8}, {"dtype", "fp32"}},
         .is_of_card = false},
        *claimed,
        {.figures = {exactly(is_oom ? 1 : 0)},
         .text = fmt::format("16384 tokens {}", is_oom ? "run out of memory" : "fit"),
         .differences = {
             is_as_large ? ""
                         : fmt::format("another memory ({}, not 20 GB)", has(memory) ? bytes(memory) : "not known")}});
  return answer;
}

std::string matrices_text(int count) { return count == 1 ? "1 matrix" : fmt::format("{} matrices", count); }

// The source has a figure for each width.
void judge_before_backward(StudyAnswer& answer, const Json& row, double measured, int matrices) {
  const auto& published = published_rows();
  const auto is_of_width = [&](double width) {
    return std::ranges::find_if(published, [&](const PublishedRow& each) {
      return each.study == "a800_80gb" && each.kind == PublishedKind::attention && each.size("sequence") == 16384 &&
             static_cast<double>(each.size("d").value_or(0)) == width;
    });
  };
  auto source = is_of_width(number_at(row, "d_model"));
  if (source == published.end()) source = is_of_width(64);
  const auto figure = std::ranges::find(source->figures, "memory_before_backward_mib", &PublishedFigure::quantity);
  judge(answer,
        {.source = "a800_80gb",
         .text = fmt::format("Attention with three stored matrices of scores keeps {} MiB before backward at 16,384 "
                             "tokens (d {}).",
                             figure->printed, *source->size("d")),
         .figures = {{0.98 * figure->value, 1.02 * figure->value}},
         .of = {{"sequence", 16384}, {"batch", 8}, {"d_model", *source->size("d")}, {"dtype", "fp32"}},
         .is_of_card = false},
        row,
        {.figures = {exactly(measured / (1 << 20))},
         .text = fmt::format("{} stored, and {:.1f} MiB kept, {:.3f} of it",
                             matrices == 1 ? "1 matrix is" : fmt::format("{} matrices are", matrices),
                             measured / (1 << 20), measured / (1 << 20) / figure->value),
         .differences = {matrices == 3 ? "" : fmt::format("another number of matrices ({}, not 3)", matrices)}});
}

StudyAnswer accounting(const PartRows& rows) {
  StudyAnswer answer{kAttentionTopic, "What does attention allocate, and does the sum agree with the measurement?"};
  Rows all = rows_of(rows, StudyPart::accounting, {{"moment", "before backward"}});
  if (all.empty()) return unanswered(answer, StudyPart::accounting);
  all = rows_like(all, *all.front(), {"attention", "sequence", "dtype", "d_model", "batch"});
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
      percent(quadratic / measured), matrices_text(matrices), bytes(predicted),
      predicted == measured && measured == allocated
          ? "the bytes of the allocator exactly"
          : fmt::format("{} off the bytes of the allocator", percent(std::abs(predicted / allocated - 1))));
  judge_before_backward(answer, *all.front(), measured, matrices);
  return answer;
}

StudyAnswer ladder(const PartRows& rows) {
  StudyAnswer answer{kAttentionTopic,
                     "What do variants save that keep fewer matrices of scores, and what does it cost?"};
  const Rows all = rows_of(rows, StudyPart::ladder);
  double longest = 0;
  for (const Json* row : all) longest = std::max(longest, number_at(*row, "context"));
  Rows same = rows_of(all, {{"context", longest}});
  if (same.empty()) return unanswered(answer, StudyPart::ladder);
  same = rows_like(same, *same.front(), {"dtype", "batch", "model.d_model"});
  for (const Json* row : same) {
    answer.add(StudyPart::ladder, "{}{}: before backward {}{}, forward {}, backward {}", text_at(*row, "attention"),
               fallback(*row), bytes_at(*row, kSaved), in_matrices(*row), ms_at(*row, kForward),
               ms_at(*row, kBackward));
  }
  const Json& most = **std::ranges::max_element(same, {}, [](const Json* row) { return number_at(*row, kSaved); });
  // The fastest of the variants that save the same bytes.
  const Json& least = **std::ranges::min_element(same, {}, [](const Json* row) {
    return std::pair(number_at(*row, kSaved), number_at(*row, kForward) + number_at(*row, kBackward));
  });
  if (number_at(most, kSaved) == number_at(least, kSaved) || same.size() == 1) {
    answer.say("At {} tokens no variant keeps less for backward than another: {}.", longest, bytes_at(most, kSaved));
    return answer;
  }
  answer.say(
      "At {} tokens {} attention{} keeps {} for backward, {} attention{} {}: {} less. Forward and backward together "
      "are then {}.",
      longest, text_at(most, "attention"), fallback(most), bytes_at(most, kSaved), text_at(least, "attention"),
      fallback(least), bytes_at(least, kSaved), times(number_at(most, kSaved) / number_at(least, kSaved)),
      words(speedup(most, least, {"forward_ms", "backward_ms"})));
  return answer;
}

StudyAnswer flash(const PartRows& rows) {
  StudyAnswer answer{kAttentionTopic, "How far does tiled attention reach?"};
  Rows all = rows_of(rows, StudyPart::flash, {{"attention", "flash"}});
  if (all.empty()) return unanswered(answer, StudyPart::flash);
  const Json* usual = first_of(all, {{"model.d_model", 64}});
  all = sorted_by(rows_like(all, usual == nullptr ? *all.front() : *usual, {"dtype", "batch", "model.d_model"}),
                  "context");
  std::vector<std::pair<double, double>> memory;
  for (const Json* row : all) {
    memory.emplace_back(number_at(*row, "context"), number_at(*row, kSaved));
    answer.add(StudyPart::flash, "{} tokens{}: forward {}, backward {}, before backward {}", number_at(*row, "context"),
               fallback(*row), ms_at(*row, kForward), ms_at(*row, kBackward), bytes_at(*row, kSaved));
  }
  if (!fallback(*all.back()).empty()) {
    answer.say("This device has no tiled kernel for these calls (d {}, {}), so {} attention ran instead.",
               number_at(*all.back(), "model.d_model"), text_at(*all.back(), "dtype"),
               text_at(*all.back(), "attention_fallback"));
    return answer;
  }
  const double stored = memory.back().second / score_matrix_bytes(*all.back());
  answer.say("At {} tokens (d {}, {}), the longest measured, it keeps {} for backward{}.", memory.back().first,
             number_at(*all.back(), "model.d_model"), text_at(*all.back(), "dtype"), bytes(memory.back().second),
             has(stored) ? fmt::format(", {:.2g} of the size of one matrix of scores", stored) : "");
  const double power = exponent(memory);
  if (has(power)) answer.say("Its memory grows with the sequence to the power {:.2f}.", power);
  return answer;
}

// Rows of editions alone have other variants beside the tiled one.
StudyAnswer flash_gain(const PartRows& rows) {
  StudyAnswer answer{kAttentionTopic, "How much faster is tiled attention than attention that stores its scores?"};
  const Rows all = rows_of(rows, StudyPart::flash);
  for (const std::string& dtype : texts_of(all, "dtype")) {
    const auto gains = pairs_of(sorted_by(all, "context"), {{"attention", "composite"}, {"dtype", dtype}},
                                {{"attention", "flash"}}, {"dtype", "context", "batch", "model.d_model"});
    const std::pair<const Json*, const Json*>* longest = nullptr;
    for (const auto& pair : gains) {
      const auto& [stored, tiled] = pair;
      answer.add(StudyPart::flash, "{}, d {}, {} tokens{}: forward {}, backward {}; forward and backward are {}", dtype,
                 number_at(*tiled, "model.d_model"), number_at(*tiled, "context"), fallback(*tiled),
                 ms_at(*tiled, kForward), ms_at(*tiled, kBackward),
                 words(speedup(*stored, *tiled, {"forward_ms", "backward_ms"})));
      if (number_at(*tiled, "model.d_model") == 64 && fallback(*tiled).empty()) longest = &pair;
    }
    if (longest == nullptr) continue;
    const auto& [stored, tiled] = *longest;
    answer.say(
        "In {} (d 64), at {} tokens, the longest at which both were measured, forward and backward are {} and keep {} "
        "instead of {}.",
        dtype, number_at(*tiled, "context"), words(speedup(*stored, *tiled, {"forward_ms", "backward_ms"})),
        bytes_at(*tiled, kSaved), bytes_at(*stored, kSaved));
  }
  return answer.sentence.empty() ? unanswered(answer, StudyPart::flash) : answer;
}

}  // namespace

std::vector<StudyAnswer> about_attention(const PartRows& rows) {
  std::vector<StudyAnswer> answers = {grid(rows), out_of_memory(rows), accounting(rows), ladder(rows), flash(rows)};
  if (StudyAnswer gain = flash_gain(rows); !gain.missing) answers.push_back(std::move(gain));
  return answers;
}

}  // namespace ridgepoint::answers
