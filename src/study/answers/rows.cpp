#include "study/answers/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/text/units.h"
#include "inspect/published/compare.h"
#include "record/columns.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint::answers {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool satisfies(const Json& row, Conditions conditions) {
  return std::ranges::all_of(conditions, [&](const auto& each) { return field(row, each.first) == each.second; });
}

// The name of a field for readers.
std::string_view kind_of_field(std::string_view path) {
  if (path == "model.name") return "model";
  if (path == "dtype") return "number type";
  if (path == "batch" || path == "context" || path == "sequence" || path == "model.d_model") return "size";
  return "setting";
}

// "another size (context 256, not 512)"
std::string difference(const Json& row, const std::pair<std::string_view, Json>& stated) {
  const auto text = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.is_null() ? "not known" : value.dump();
  };
  const auto& [path, value] = stated;
  const Json& own = field(row, path);
  if (own == value) return "";
  const std::string_view kind = kind_of_field(path);
  const bool says_what = kind == "size" || kind == "setting";
  return fmt::format("another {} ({}{}, not {})", kind,
                     says_what ? fmt::format("{} ", path.substr(path.rfind('.') + 1)) : "", text(own), text(value));
}

}  // namespace

bool has(double value) { return !std::isnan(value); }

Rows rows_of(const PartRows& rows, StudyPart part, Conditions conditions) {
  Rows found;
  const auto of_part = rows.find(part);
  if (of_part == rows.end()) return found;
  for (const Json* row : of_part->second) {
    const std::string status = text_at(*row, "status");
    if ((status.empty() || status == "ok") && satisfies(*row, conditions)) found.push_back(row);
  }
  return found;
}

Rows rows_of(const Rows& rows, Conditions conditions) {
  Rows found;
  for (const Json* row : rows) {
    if (satisfies(*row, conditions)) found.push_back(row);
  }
  return found;
}

const Json* first_of(const Rows& rows, Conditions conditions) {
  const Rows found = rows_of(rows, conditions);
  return found.empty() ? nullptr : found.front();
}

Rows too_large(const PartRows& rows, StudyPart part) {
  Rows found;
  const auto of_part = rows.find(part);
  if (of_part == rows.end()) return found;
  for (const Json* row : of_part->second) {
    if (text_at(*row, "status") == "oom" && has(number_at(*row, kPlannedPeak))) found.push_back(row);
  }
  return found;
}

const Json* largest_of(const Json& list, std::string_view path) {
  const Json* largest = nullptr;
  for (const Json& each : list) {
    if (largest == nullptr || number_at(each, path) > number_at(*largest, path)) largest = &each;
  }
  return largest;
}

std::vector<std::pair<const Json*, const Json*>> pairs_of(const Rows& rows, Conditions first, Conditions second,
                                                          std::initializer_list<std::string_view> equal) {
  std::vector<std::pair<const Json*, const Json*>> pairs;
  const Rows others = rows_of(rows, second);
  for (const Json* row : rows_of(rows, first)) {
    const Rows like = rows_like(others, *row, equal);
    if (!like.empty()) pairs.emplace_back(row, like.front());
  }
  return pairs;
}

Rows rows_like(const Rows& rows, const Json& row, std::initializer_list<std::string_view> equal) {
  Rows found;
  for (const Json* each : rows) {
    if (std::ranges::all_of(equal, [&](std::string_view path) { return field(*each, path) == field(row, path); }))
      found.push_back(each);
  }
  return found;
}

Rows sorted_by(Rows rows, std::string_view path) {
  std::ranges::stable_sort(rows, {}, [&](const Json* row) {
    const double value = number_at(*row, path);
    return has(value) ? value : -std::numeric_limits<double>::infinity();
  });
  return rows;
}

std::vector<std::string> texts_of(const Rows& rows, std::string_view path) {
  std::vector<std::string> values;
  for (const Json* row : rows) {
    std::string value = text_at(*row, path);
    if (!value.empty() && std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

std::string doubt(const Json& row, std::string_view statistic) {
  const std::string verdict = text_at(row, "timing.verdict");
  if (verdict.empty() || verdict == name(TimingVerdict::steady)) return "";
  const auto is_verdict = [&](TimingVerdict each) { return name(each) == verdict; };
  const auto found = std::ranges::find_if(kAllTimingVerdicts, is_verdict);
  // Only one time of an attention call was judged; the other is in doubt if the cause concerns the whole row.
  const std::string judged = text_at(row, "timing.judged");
  const bool is_other = judged != statistic && (statistic == "forward_ms" || statistic == "backward_ms") &&
                        (judged == "forward_ms" || judged == "backward_ms");
  const bool is_of_row = found != kAllTimingVerdicts.end() && is_of_whole_row(*found);
  return is_other && !is_of_row ? "" : fmt::format(" (~ {})", verdict);
}

std::string fallback(const Json& row) {
  const std::string variant = text_at(row, "attention_fallback");
  return variant.empty() ? "" : fmt::format(" (ran as {})", variant);
}

std::string ms(double milliseconds) { return format_ms(milliseconds) + " ms"; }
std::string ms_at(const Json& row, std::string_view path) {
  return ms(number_at(row, path)) + doubt(row, path.substr(0, path.find('.')));
}
std::string bytes(double count) { return format_byte_count(count); }
std::string bytes_at(const Json& row, std::string_view path) { return bytes(number_at(row, path)); }
std::string percent(double share) {
  return std::abs(share) < 0.0995 ? fmt::format("{:.1f} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}
std::string times(double ratio) {
  return ratio < 9.995 ? fmt::format("{:.2f}x", ratio) : fmt::format("{:.0f}x", ratio);
}

std::string flops(double count) {
  const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t at = 0;
  while (count >= 999.5 && at + 1 < std::size(prefixes)) count /= 1000, ++at;
  return fmt::format("{:.3g} {}flop", count, prefixes[at]);
}

std::string workload(const Json& row) {
  const std::string model = text_at(row, "model.name");
  const std::string size = model.empty()
                               ? fmt::format("{} x {}, d {}", number_at(row, "batch"), number_at(row, "context"),
                                             number_at(row, "model.d_model"))
                               : fmt::format("{}, {} x {}", model, number_at(row, "batch"), number_at(row, "context"));
  return fmt::format("{}, {}", size, text_at(row, "dtype"));
}

std::vector<double> samples_of(const Json& row, std::string_view path) {
  std::vector<double> samples;
  for (const Json& sample : field(row, path)) {
    if (sample.is_number() && sample.get<double>() > 0) samples.push_back(sample.get<double>());
  }
  return samples;
}

std::string pass_name(std::string_view mode) {
  if (mode == "step") return "a training step";
  if (mode == "forward_backward") return "a forward and backward pass";
  return mode == "training_forward" ? "a forward pass that keeps what backward reads" : "a forward pass";
}

Speedup speedup(const Json& baseline, const Json& row, std::initializer_list<std::string_view> statistics) {
  std::vector<double> samples[2];
  double medians[2] = {0, 0};
  Speedup found;
  for (const int i : {0, 1}) {
    const Json& of = i == 0 ? baseline : row;
    for (const std::string_view statistic : statistics) {
      medians[i] += number_at(of, fmt::format("{}.median", statistic));
      if (found.doubt.empty()) found.doubt = doubt(of, statistic);
      const std::vector<double> more = samples_of(of, fmt::format("{}.samples", statistic));
      const bool is_first = statistic == *statistics.begin();
      samples[i].resize(is_first ? more.size() : std::min(more.size(), samples[i].size()));
      for (std::size_t k = 0; k < samples[i].size(); ++k) samples[i][k] += more[k];
    }
  }
  found.ratio = medians[0] / medians[1];
  if (samples[0].empty() || samples[1].empty()) return found;
  const TimeRatio ratio = ratio_of_medians(samples[0], samples[1], kConfidence);
  found.ratio = 1 / ratio.ratio;
  if (!ratio.interval) return found;
  found.interval = Range{1 / ratio.interval->high, 1 / ratio.interval->low};
  found.verdict = judge(ratio, 0);
  return found;
}

std::string times(const Range& range) {
  const std::string low = times(range.low), high = times(range.high);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

std::string words(const Speedup& speedup) {
  const auto& [ratio, interval, doubt, verdict] = speedup;
  if (!interval) return fmt::format("{} as fast{}, by too few iterations for an interval", times(ratio), doubt);
  const bool is_slower = verdict == Verdict::slower;
  if (verdict == Verdict::cannot_tell)
    return fmt::format("{} as fast{}, so the noise hides which is faster", times(*interval), doubt);
  const Range shown = is_slower ? Range{1 / interval->high, 1 / interval->low} : *interval;
  const std::string figure = times(is_slower ? 1 / ratio : ratio);
  // The doubt is in parentheses, as the interval is.
  const std::string remarks = times(shown) == figure ? doubt
                              : doubt.empty()        ? fmt::format(" ({})", times(shown))
                                                     : fmt::format(" ({}, {}", times(shown), doubt.substr(2));
  return fmt::format("{} as {}{}", figure, is_slower ? "long" : "fast", remarks);
}

void judge(StudyAnswer& answer, PublishedClaim claim, const Json& row, OwnFigures own) {
  std::vector<std::string> why;
  if (claim.is_of_card) why.push_back(other_card(claim.source, text_at(row, "device.name")));
  for (const auto& stated : claim.of) why.push_back(difference(row, stated));
  std::ranges::move(own.differences, std::back_inserter(why));
  if (!own.doubt.empty()) why.emplace_back("its timing is in doubt");
  bool agrees = true, is_hidden = false, is_contradicted = false;
  for (std::size_t i = 0; i < claim.figures.size(); ++i) {
    const Range& range = claim.figures[i];
    if (i >= own.figures.size() || !own.figures[i]) {
      is_hidden = true;
      continue;
    }
    const auto& [low, high] = *own.figures[i];
    const bool is_apart = high < range.low || low > range.high;
    const bool is_within = low >= range.low && high <= range.high;
    is_contradicted |= is_apart;
    is_hidden |= !is_apart && !is_within;  // also where it is no number
    agrees &= is_within;
  }
  if (is_hidden && !is_contradicted) why.emplace_back("the noise, or too few samples, hides whether they agree");
  std::erase(why, "");
  StudyClaim& judged = answer.elsewhere.emplace_back(StudyClaim{std::move(claim.source), std::move(claim.text)});
  judged.verdict = !why.empty() ? StudyClaim::Verdict::not_comparable : agreement(agrees);
  judged.reason = fmt::format("Here {}{}.", own.text, own.doubt);
  if (!why.empty()) judged.reason += fmt::format(" Not compared: {}.", fmt::join(why, "; "));
}

double exponent(std::span<const std::pair<double, double>> points) {
  if (points.size() < 2 || points.front().first == points.back().first) return kUnknown;
  return std::log(points.back().second / points.front().second) / std::log(points.back().first / points.front().first);
}

StudyAnswer unanswered(const StudyAnswer& asked, StudyPart part) {
  return {.topic = asked.topic,
          .question = asked.question,
          .sentence = fmt::format("This study cannot say: its part '{}' has no rows for it.", name(part)),
          .missing = part};
}

}  // namespace ridgepoint::answers

namespace ridgepoint {

std::vector<StudyAnswer> answer_questions(const StudyRows& rows) {
  // If nothing was measured, planned memory answers; times must be measured.
  const answers::PartRows measured = answers::measured_rows(rows, false), known = answers::measured_rows(rows, true);
  answers::PartRows of_attention = measured;
  for (const StudyPart part : {StudyPart::attention_limit, StudyPart::accounting})
    if (known.contains(part)) of_attention[part] = known.at(part);
  std::vector<StudyAnswer> all;
  const auto add = [&](std::vector<StudyAnswer> answers) {
    for (StudyAnswer& answer : answers) {
      if (answers::is_about_planned(answer, rows)) continue;
      answers::mark_planned(answer, rows);
      all.push_back(std::move(answer));
    }
  };
  add(answers::about_steps(measured));
  add(answers::about_kernels(measured));
  add(answers::about_precision(measured));
  add(answers::about_memory(known));
  add(answers::about_attention(of_attention));
  add(answers::about_compilation(measured));
  add(answers::about_checkpointing(known));
  add(answers::about_ranks(measured));
  add(answers::about_exercise(known));
  std::ranges::move(answers::about_plans(rows), std::back_inserter(all));
  return all;
}

}  // namespace ridgepoint
