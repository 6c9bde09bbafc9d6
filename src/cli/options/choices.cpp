#include "cli/options/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/options/sweep.h"
#include "models/transformer/transformer.h"
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
  if (text.empty()) return choices;
  for (const std::string_view name : tables::lines_of(text)) choices.names.emplace_back(name);
  return choices;
}

std::string OptionText::full_help() const {
  if (!initial.empty()) {
    const bool is_all = !names.empty() && initial == fmt::format("{}", fmt::join(names, ","));
    return fmt::format("{} [{}{}]", help, is_all ? "all" : initial,
                       of_config.empty() ? "" : fmt::format("; of a config.json {}", of_config));
  }
  return without.empty() ? help : fmt::format("{} [{}]", help, without);
}

OptionText text_of(const Setting& setting, const Option& option) {
  OptionText text{.flags = {},
                  .group = std::string(option.group),
                  .value = std::string(option.value),
                  .help = std::string(option.help),
                  .initial = std::string(option.initial),
                  .alone = std::string(option.alone),
                  .of_config = std::string(option.of_config),
                  .without = std::string(option.without),
                  .names = setting.accepted()};
  for (const std::string& name : split_list(option.names))
    text.flags += fmt::format("{}--{}", text.flags.empty() ? "" : ",", name);
  if (text.value.empty()) {
    const bool is_real = setting.kind == Kind::number;
    text.value = !text.names.empty() ? "NAME" : setting.kind == Kind::bytes ? "SIZE" : is_real ? "X" : "N";
  }
  if (const std::size_t presets = text.help.find("{}"); presets != std::string::npos) {
    std::vector<std::string_view> names;
    for (const TransformerConfig& preset : transformer_presets()) names.push_back(preset.name);
    text.help.replace(presets, 2, fmt::format("{}", fmt::join(names, ", ")));
  }
  if (!text.names.empty() && !option.names_values) text.help += fmt::format(": {}", fmt::join(text.names, ", "));
  return text;
}

}  // namespace ridgepoint::cli
