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

const Json& field(const Json& row, std::string_view path) {
  static const Json nothing = nullptr;
  const Json* at = &row;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const auto found = at->is_object() ? at->find(std::string(path.substr(0, dot))) : at->end();
    if (!at->is_object() || found == at->end()) return nothing;
    at = &*found;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return *at;
}

double number(const Json& row, std::string_view path) {
  const Json& value = field(row, path);
  return value.is_number() ? value.get<double>() : kUnknown;
}

std::string text(const Json& row, std::string_view path) {
  const Json& value = field(row, path);
  return value.is_string() ? value.get<std::string>() : "";
}

bool has(double value) { return !std::isnan(value); }

Rows rows_of(const StudyRows& rows, StudyPart part, Conditions conditions) {
  Rows found;
  const auto of_part = rows.find(part);
  if (of_part == rows.end()) return found;
  for (const Json& row : of_part->second) {
    const std::string status = text(row, "status");
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

std::vector<std::string> texts_of(const Rows& rows, std::string_view path) {
  std::vector<std::string> values;
  for (const Json* row : rows) {
    std::string value = text(*row, path);
    if (!value.empty() && std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

std::string ms(double milliseconds) { return format_ms(milliseconds) + " ms"; }
std::string bytes(double count) { return format_byte_count(count); }
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
  const std::string model = text(row, "model.name");
  const std::string size =
      model.empty()
          ? fmt::format("{} x {}, d {}", number(row, "batch"), number(row, "context"), number(row, "model.d_model"))
          : fmt::format("{}, {} x {}", model, number(row, "batch"), number(row, "context"));
  return fmt::format("{}, {}", size, text(row, "dtype"));
}

Verdict compare(const Json& baseline, const Json& row, std::string_view samples) {
  const auto read = [&](const Json& from) {
    std::vector<double> values;
    for (const Json& sample : field(from, samples)) {
      if (sample.is_number() && sample.get<double>() > 0) values.push_back(sample.get<double>());
    }
    return values;
  };
  const std::vector<double> a = read(baseline);
  const std::vector<double> b = read(row);
  if (a.empty() || b.empty()) return Verdict::cannot_tell;
  return judge(ratio_of_medians(a, b, kConfidence), 0);
}

double exponent(std::span<const std::pair<double, double>> points) {
  if (points.size() < 2 || points.front().first == points.back().first) return kUnknown;
  return std::log(points.back().second / points.front().second) / std::log(points.back().first / points.front().first);
}

StudyAnswer unanswered(std::string topic, std::string question, StudyPart part) {
  return {.topic = std::move(topic),
          .question = std::move(question),
          .sentence = fmt::format("This study cannot say: its part '{}' has no rows for it.", name(part)),
          .missing = part};
}

}  // namespace ridgepoint::answers
