// How the lists of options make an axis of names or of numbers.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "core/text/nearest.h"
#include "core/text/units.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {

using Names = std::vector<std::string_view>;

// The names that an option accepts, and names that a later version will accept.
struct AcceptedNames {
  Names available;
  Names planned;
};

inline void check_choice(std::string_view value, const AcceptedNames& choices) {
  if (std::ranges::find(choices.available, value) != choices.available.end()) return;
  const std::string available = fmt::format("{}", fmt::join(choices.available, ", "));
  if (std::ranges::find(choices.planned, value) != choices.planned.end()) {
    throw Error(fmt::format("'{}' is not in this build; available: {}", value, available), ErrorKind::usage);
  }
  throw Error(fmt::format("'{}' is unknown{}", value, hint(value, choices.available)), ErrorKind::usage);
}

template <typename Apply>
Axis choice_axis(std::string flag, std::string group, std::string fallback, AcceptedNames choices, std::string help,
                 Apply apply) {
  const auto parse = [choices, apply](std::string_view text) {
    std::vector<Axis::Setting> settings;
    for (std::string& value : split_list(text)) {
      check_choice(value, choices);
      settings.emplace_back([apply, value](RunDraft& draft) { apply(draft, value); });
    }
    return settings;
  };
  help += fmt::format(": {}", fmt::join(choices.available, ", "));
  if (!fallback.empty() && choices.available.size() > 1) {
    const bool is_all = fallback == fmt::format("{}", fmt::join(choices.available, ","));
    help += fmt::format(" [{}]", is_all ? "all" : fallback);
  }
  return {std::move(flag), std::move(group), "NAME", std::move(help), parse, std::move(fallback), choices.available};
}

template <typename Apply>
Axis number_axis(std::string flag, std::string group, std::string fallback, NumberRule rule, std::string help,
                 Apply apply) {
  const std::string type_name = rule.parse == parse_bytes ? "SIZE" : "N";
  const auto parse = [rule, apply](std::string_view text) {
    std::vector<Axis::Setting> settings;
    for (const std::int64_t value : parse_numbers(text, rule)) {
      settings.emplace_back([apply, value](RunDraft& draft) { apply(draft, value); });
    }
    return settings;
  };
  if (!fallback.empty()) help += fmt::format(" [{}]", fallback);
  return {std::move(flag), std::move(group), type_name, std::move(help), parse, std::move(fallback)};
}

// Decimal digits with a point, or an exponent: 0.9, 1e-2. Throws Error (usage) quoting the text.
double parse_real(const std::string& text);

// An axis of real numbers, without ranges. `check` throws Error for one that is out of range.
template <typename Check, typename Apply>
Axis real_axis(std::string flag, std::string group, std::string help, Check check, Apply apply) {
  const auto parse = [check, apply](std::string_view text) {
    std::vector<Axis::Setting> settings;
    for (const std::string& item : split_list(text)) {
      const double value = parse_real(item);
      check(value);
      settings.emplace_back([apply, value](RunDraft& draft) { apply(draft, value); });
    }
    return settings;
  };
  return {std::move(flag), std::move(group), "X", std::move(help), parse, ""};
}

}  // namespace ridgepoint::cli
