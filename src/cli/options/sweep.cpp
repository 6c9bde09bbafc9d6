#include "cli/options/sweep.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "cli/terminal/messages.h"
#include "core/text/units.h"

namespace ridgepoint::cli {
namespace {

[[noreturn]] void fail(std::string_view text, std::string_view problem) { refuse("'{}' {}", text, problem); }

constexpr std::string_view kRangeExpected = "is not a range; write first:last, first:last:+step or first:last:*factor";

std::int64_t parse_value(std::string_view text, const NumberRule& rule) {
  const std::int64_t value = rule.parse(text);
  if (value < rule.min) fail(text, fmt::format("is too small; the least is {}", rule.min));
  if (value > rule.max) fail(text, fmt::format("is too large; the most is {}", rule.max));
  return value;
}

// The step from one value of a range to the next.
struct Stride {
  bool multiplies = false;
  std::int64_t amount = 1;
};

Stride parse_stride(std::string_view range, std::string_view text, const NumberRule& rule) {
  const bool multiplies = text.starts_with('*');
  if (!multiplies && !text.starts_with('+')) {
    fail(range, kRangeExpected);
  }
  const std::string_view amount_text = text.substr(1);
  if (amount_text.empty()) fail(range, multiplies ? "has no factor after '*'" : "has no step after '+'");
  const std::int64_t amount = multiplies ? parse_integer(amount_text) : rule.parse(amount_text);
  if (multiplies && amount < 2) fail(range, "would never end: its factor must be 2 or more");
  if (amount < 1) fail(range, "would never end: its step must be 1 or more");
  return {multiplies, amount};
}

// False when the next value passes `last` (or 2^63).
bool advance(std::int64_t& value, Stride stride, std::int64_t last) {
  std::int64_t next = 0;
  const bool overflows = stride.multiplies ? __builtin_mul_overflow(value, stride.amount, &next)
                                           : __builtin_add_overflow(value, stride.amount, &next);
  if (overflows || next > last) return false;
  value = next;
  return true;
}

void append(std::vector<std::int64_t>& values, std::int64_t value, std::string_view text) {
  if (values.size() == kMaxSweepValues) fail(text, fmt::format("has more than {} values", kMaxSweepValues));
  values.push_back(value);
}

void append_range(std::vector<std::int64_t>& values, std::string_view range, const NumberRule& rule) {
  const std::size_t first_colon = range.find(':');
  const std::size_t second_colon = range.find(':', first_colon + 1);
  const bool has_stride = second_colon != std::string_view::npos;
  const std::string_view last_text =
      range.substr(first_colon + 1, has_stride ? second_colon - first_colon - 1 : std::string_view::npos);
  if (first_colon == 0 || last_text.empty()) fail(range, kRangeExpected);
  std::int64_t value = parse_value(range.substr(0, first_colon), rule);
  const std::int64_t last = parse_value(last_text, rule);
  const Stride stride = has_stride ? parse_stride(range, range.substr(second_colon + 1), rule) : Stride{};
  if (last < value) fail(range, "is an empty range: it ends below its start");
  if (stride.multiplies && value == 0) fail(range, "would never end: multiplying zero stays at zero");
  do {
    append(values, value, range);
  } while (advance(value, stride, last));
}

}  // namespace

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) fail(text, text.empty() ? "is empty; give one value or more" : "has an empty item");
    items.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

std::vector<std::int64_t> parse_numbers(std::string_view text, const NumberRule& rule) {
  std::vector<std::int64_t> values;
  for (const std::string& item : split_list(text)) {
    if (item.find(':') == std::string::npos) {
      append(values, parse_value(item, rule), text);
    } else {
      append_range(values, item, rule);
    }
  }
  return values;
}

std::pair<std::int64_t, std::int64_t> parse_range(std::string_view text, std::int64_t parts_of_ms) {
  constexpr double kMostMs = 1e12;
  double begin = 0, end = 0;
  const char* const last = text.data() + text.size();
  const auto first = std::from_chars(text.data(), last, begin);
  const bool has_colon = first.ec == std::errc() && first.ptr != last && *first.ptr == ':';
  const auto second = has_colon ? std::from_chars(first.ptr + 1, last, end) : first;
  const bool is_read = has_colon && second.ec == std::errc() && second.ptr == last;
  if (!is_read || begin < 0 || end <= begin || end > kMostMs)
    refuse("'{}' is no range of milliseconds; write it as 10:20", text);
  const auto parts = static_cast<double>(parts_of_ms);
  return {std::llround(begin * parts), std::llround(end * parts)};
}

}  // namespace ridgepoint::cli
