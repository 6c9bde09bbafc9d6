#include "cli/options/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "tables/table/wrap.h"

namespace ridgepoint::cli {
namespace {

constexpr const char* kOne = "choices";
constexpr const char* kList = "list of choices";

const CLI::Validator* find_validator(CLI::Option& option, const char* name) {
  try {
    return option.get_validator(name);
  } catch (const CLI::OptionNotFound&) {
    return nullptr;
  }
}

}  // namespace

// CLI11 has no place for the data of a user. An inactive validator is ignored by the parser and by the help.
void offer(CLI::Option& option, const std::vector<std::string_view>& names, Takes takes) {
  CLI::Validator validator([](std::string&) { return std::string(); }, fmt::format("{}", fmt::join(names, "\n")));
  option.check(validator.name(takes == Takes::list ? kList : kOne).active(false));
}

Choices choices_of(CLI::Option& option) {
  const CLI::Validator* list = find_validator(option, kList);
  const CLI::Validator* found = list != nullptr ? list : find_validator(option, kOne);
  if (found == nullptr) return {};
  CLI::Validator copy = *found;
  const std::string text = copy.active().get_description();
  Choices choices{{}, list != nullptr};
  for (const std::string_view name : views::lines_of(text)) choices.names.emplace_back(name);
  return choices;
}

}  // namespace ridgepoint::cli
