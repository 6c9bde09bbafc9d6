#include "study/answers/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/text/units.h"

namespace ridgepoint::answers {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kConfidence = 0.95;

bool satisfies(const Json& row, Conditions conditions) {
  return std::ranges::all_of(conditions, [&](const auto& each) { return field(row, each.first) == each.second; });
}

}  // namespace

bool has(double value) { return !std::isnan(value); }

Rows rows_of(const StudyRows& rows, StudyPart part, Conditions conditions) {
  Rows found;
  const auto of_part = rows.find(part);
  if (of_part == rows.end()) return found;
  for (const Json& row : of_part->second) {
    const std::string status = text_at(row, "status");
    if ((status.empty() || status == "ok") && satisfies(row, conditions)) found.push_back(&row);
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

std::vector<std::pair<const Json*, const Json*>> pairs_of(const Rows& rows, Conditions first, Conditions second,
                                                          std::initializer_list<std::string_view> equal) {
  std::vector<std::pair<const Json*, const Json*>> pairs;
  const Rows others = rows_of(rows, second);
  for (const Json* row : rows_of(rows, first)) {
    const auto other = std::ranges::find_if(others, [&](const Json* each) {
      return std::ranges::all_of(equal, [&](std::string_view path) { return field(*row, path) == field(*each, path); });
    });
    if (other != others.end()) pairs.emplace_back(row, *other);
  }
  return pairs;
}

std::vector<std::string> texts_of(const Rows& rows, std::string_view path) {
  std::vector<std::string> values;
  for (const Json* row : rows) {
    std::string value = text_at(*row, path);
    if (!value.empty() && std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

std::string ms(double milliseconds) { return format_ms(milliseconds) + " ms"; }
std::string ms_at(const Json& row, std::string_view path) { return ms(number_at(row, path)); }
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

Verdict compare(const Json& baseline, const Json& row) {
  const std::vector<double> a = samples_of(baseline);
  const std::vector<double> b = samples_of(row);
  if (a.empty() || b.empty()) return Verdict::cannot_tell;
  return judge(ratio_of_medians(a, b, kConfidence), 0);
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
  std::vector<StudyAnswer> all;
  for (const auto topic :
       {answers::about_steps, answers::about_kernels, answers::about_precision, answers::about_memory,
        answers::about_attention, answers::about_compilation, answers::about_checkpointing, answers::about_ranks}) {
    for (StudyAnswer& answer : topic(rows)) all.push_back(std::move(answer));
  }
  return all;
}

}  // namespace ridgepoint
