#include "core/text/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>

#include "core/text/nearest.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

struct ByteUnit {
  std::string_view name;  // lower case
  double bytes;
};

constexpr ByteUnit kByteUnits[] = {{"", 1},         {"b", 1},      {"k", 0x1p10},   {"kib", 0x1p10}, {"m", 0x1p20},
                                   {"mib", 0x1p20}, {"g", 0x1p30}, {"gib", 0x1p30}, {"t", 0x1p40},   {"tib", 0x1p40},
                                   {"kb", 1e3},     {"mb", 1e6},   {"gb", 1e9},     {"tb", 1e12}};

constexpr double kMostBytes = 0x1p62;

[[noreturn]] void fail(std::string_view text, std::string_view problem) {
  throw_error(ErrorKind::usage, "'{}' {}", text, problem);
}

// The value in one of `units`, each of which is `step` times the one before. From `next_unit` on it would print as one
// of the next unit; below `few` it has two decimals, otherwise one.
std::string in_units(double value, double step, double next_unit, std::span<const std::string_view> units,
                     double few = 0) {
  std::size_t unit = 0;
  for (value /= step; std::abs(value) >= next_unit && unit + 1 < units.size(); ++unit) value /= step;
  return fmt::format("{:.{}f} {}", value, std::abs(value) < few ? 2 : 1, units[unit]);
}

constexpr std::array<std::string_view, 6> kBinaryNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

// Three digits at least, so that 1,034 MiB and 1,064 MiB differ.
std::string in_binary_units(double value) { return in_units(value, 1024, 1023.95, kBinaryNames, 9.995); }

std::string_view& unit_of_bytes() {
  static std::string_view unit;
  return unit;
}

std::string in_unit(double bytes, std::string_view unit) {
  if (unit == "B") return fmt::format("{:.0f} B", bytes);
  const auto place = std::ranges::find(kBinaryNames, unit) - kBinaryNames.begin();
  return fmt::format("{:.{}f} {}", bytes / std::pow(1024, place + 1), place < 2 ? 1 : 3, unit);
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (!unit_of_bytes().empty()) return in_unit(static_cast<double>(bytes), unit_of_bytes());
  return bytes < 1024 ? fmt::format("{} B", bytes) : in_binary_units(static_cast<double>(bytes));
}

void write_bytes_in(std::string_view unit) {
  unit_of_bytes() = {};
  if (unit.empty()) return;
  const auto* found =
      std::ranges::find_if(kPrintedByteUnits, [&](std::string_view known) { return lower(known) == lower(unit); });
  if (found == kPrintedByteUnits.end()) refuse_name(unit, "'{}' is no unit", kPrintedByteUnits);
  unit_of_bytes() = *found;
}

std::string format_byte_count(double bytes) {
  if (!std::isfinite(bytes)) return "-";
  return format_bytes(static_cast<std::uint64_t>(std::clamp(bytes, 0.0, 0x1p63)));
}

std::string format_signed_bytes(std::int64_t bytes) {
  const auto size = static_cast<std::uint64_t>(bytes);
  return bytes < 0 ? "-" + format_bytes(0 - size) : format_bytes(size);
}

std::string format_count(double count) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"k", "M", "G", "T", "P", "E"};
  if (!std::isfinite(count)) return "-";
  if (std::abs(count) < 999.5) return fmt::format("{:.4g}", count);
  return in_units(count, 1000, 999.95, kPrefixes);
}

std::string format_ms(double milliseconds) {
  if (!std::isfinite(milliseconds)) return "-";
  if (milliseconds >= 1000) return fmt::format("{:.0f}", milliseconds);
  if (milliseconds >= 100) return fmt::format("{:.1f}", milliseconds);
  if (milliseconds >= 1) return fmt::format("{:.2f}", milliseconds);
  return fmt::format("{:.4f}", milliseconds);
}

std::string format_duration(double seconds) {
  const auto total = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  const std::int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

std::int64_t parse_bytes(std::string_view text) {
  constexpr std::string_view kExpected = "is not a size in bytes; examples: 20GiB, 512MiB, 1GB, 4096";
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (code != std::errc() || !std::isfinite(number)) fail(text, kExpected);
  std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  if (suffix.starts_with(' ')) suffix.remove_prefix(1);
  const std::string unit = lower(suffix);
  const auto* found = std::ranges::find(kByteUnits, unit, &ByteUnit::name);
  if (found == std::end(kByteUnits)) fail(text, kExpected);
  const double bytes = number * found->bytes;
  if (bytes > kMostBytes) fail(text, "is more than 4 EiB");
  if (bytes < 1) fail(text, "is not a positive size; examples: 20GiB, 512MiB, 1GB, 4096");
  return static_cast<std::int64_t>(bytes);
}

std::int64_t parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc::result_out_of_range) fail(text, "does not fit in a 64-bit integer");
  if (code != std::errc() || end != text.data() + text.size()) fail(text, "is not a whole number");
  return number;
}

std::int64_t parse_tokens(std::string_view text) {
  constexpr std::int64_t kThousand = 1024;
  if (!text.ends_with('k') && !text.ends_with('K')) return parse_integer(text);
  const std::int64_t thousands = parse_integer(text.substr(0, text.size() - 1));
  std::int64_t tokens = 0;
  if (__builtin_mul_overflow(thousands, kThousand, &tokens)) fail(text, "does not fit in a 64-bit integer");
  return tokens;
}

}  // namespace ridgepoint
