#include "interchange/trace/nsys_stats.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "core/text/text.h"
#include "interchange/trace/trace_collector.h"

namespace ridgepoint {
namespace {

bool is_heading(std::string_view line) {
  return line.find("Total Time (ns)") != std::string_view::npos && line.find("Instances") != std::string_view::npos &&
         line.find("Name") != std::string_view::npos;
}

// "…" of a name in a column that was too narrow stays.
std::string name_in(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || !text.starts_with('"') || !text.ends_with('"')) return std::string(text);
  std::string name(text.substr(1, text.size() - 2));
  for (std::size_t at = 0; (at = name.find("\"\"", at)) != std::string::npos; ++at) name.erase(at, 1);
  return name;
}

// Share, total, instances, average, median, least, most, standard deviation, then the name.
std::optional<TraceSum> row_in(std::string_view line, TraceCollector& collector) {
  std::array<double, 8> figures{};
  const char* at = line.data();
  const char* const end = line.data() + line.size();
  for (double& figure : figures) {
    while (at < end && (*at == ' ' || *at == ',')) ++at;
    const auto [behind, problem] = std::from_chars(at, end, figure);
    constexpr double kMost = 1e17;
    if (problem != std::errc() || !(figure >= 0 && figure < kMost)) return std::nullopt;
    at = behind;
  }
  if (at == end || (*at != ' ' && *at != ',')) return std::nullopt;
  constexpr double kMostCalls = 1e12;
  const auto& [share, total, instances, average, median, least, most, deviation] = figures;
  const std::string name = name_in(std::string_view(at + 1, static_cast<std::size_t>(end - at - 1)));
  const std::int64_t total_ns = std::llround(total);
  if (name.empty() || instances < 1 || instances > kMostCalls || !collector.fits(total_ns)) return std::nullopt;
  return TraceSum{.name = collector.name(name),
                  .calls = std::llround(instances),
                  .total_ns = total_ns,
                  .median_ns = median,
                  .least_ns = least,
                  .most_ns = most,
                  .deviation_ns = deviation};
}

}  // namespace

bool begins_nsys_stats(std::string_view begin) {
  const std::size_t at = begin.find("Time (%)");
  return at != std::string_view::npos && is_heading(begin.substr(at, begin.find('\n', at) - at));
}

Trace read_nsys_stats(std::string_view text) {
  TraceCollector collector;
  bool is_table = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find("Time (%)") != std::string_view::npos) is_table = is_heading(line);
    if (!is_table) continue;
    if (const auto row = row_in(line, collector)) collector.trace().sums.push_back(*row);
  }
  Trace trace = collector.finish();
  trace.format = "nsys stats";
  return trace;
}

}  // namespace ridgepoint
