#include "cli/options/until.h"

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "cli/options/sweep.h"
#include "cli/terminal/messages.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000;

// The positive number before `suffix`; empty for another text.
std::optional<double> number_before(std::string_view suffix, std::string_view text) {
  if (!text.ends_with(suffix)) return std::nullopt;
  const char* end = text.data() + text.size() - suffix.size();
  double value = 0;
  const auto [parsed, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const bool is_number = error == std::errc{} && parsed == end && value > 0 && value < 1e6;
  return is_number ? std::optional(value) : std::nullopt;
}

}  // namespace

void UntilOptions::add_to(CLI::App& app) {
  const OptionGroup work(app, "Work");
  work.add("--until", until_, "PERCENT",
           "time iterations until half the width of the median's 95% confidence interval is at most this share of the "
           "median: 0.5%. At least 20 iterations run; --steps is the maximum, if it is given");
  work.add("--until-limit", limit_, "TIME", "the longest time that --until may take for a row: 90s, 2min [60s]");
}

void UntilOptions::apply(const RunOptions& run_options, std::span<RunConfig> configs) const {
  require(is_given() || limit_.empty(), "--until-limit needs --until");
  if (!is_given()) return;
  const double until = parse_option("--until", until_, parse_percentage);
  for (RunConfig& config : configs) {
    config.until = until;
    if (!limit_.empty()) config.until_limit_seconds = parse_option("--until-limit", limit_, parse_seconds);
    if (!run_options.given("--steps")) config.steps = kMostSteps;
  }
}

std::vector<std::string> UntilOptions::arguments() const {
  std::vector<std::string> words;
  if (is_given()) words.insert(words.end(), {"--until", until_});
  if (!limit_.empty()) words.insert(words.end(), {"--until-limit", limit_});
  return words;
}

double parse_percentage(std::string_view text) {
  const std::optional<double> percent = number_before("%", text);
  if (percent && *percent < 100) return *percent / 100;
  refuse("'{}' is not a percentage between 0% and 100%; write 0.5%", text);
}

double parse_seconds(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {{{"min", 60}, {"s", 1}, {"h", 3600}}};
  for (const auto& [unit, seconds] : kUnits) {
    if (const std::optional<double> count = number_before(unit, text)) return *count * seconds;
  }
  refuse("'{}' is not a time; write 90s, 2min or 1h", text);
}

}  // namespace ridgepoint::cli
