#include "cli/descriptions/description.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

namespace ridgepoint::cli {
namespace {

OptionDescription describe(CLI::Option& option) {
  OptionDescription description;
  for (const std::string& name : option.get_snames()) description.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) description.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0) description.value = option.get_type_name();
  if (description.is_positional()) description.value = option.get_name();
  description.value_is_optional = !description.value.empty() && can_be_left_out(option);
  description.is_repeated = may_be_repeated(option);
  description.help = option.get_description();
  description.group = option.get_group();
  description.choices = choices_of(option);
  return description;
}

CommandDescription describe(Command& command) {
  CLI::App app;
  prepare(app, command);
  CommandDescription description{std::string(command.name()),
                                 std::string(command.summary()),
                                 std::string(command.examples()),
                                 std::string(command.notes()),
                                 {}};
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) description.options.push_back(describe(*option));
  }
  // CLI11 registers --help first; the help lists it last.
  std::ranges::rotate(description.options, description.options.begin() + 1);
  return description;
}

}  // namespace

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const MakeCommand make : command_makers()) commands.push_back(make());
  return commands;
}

bool can_be_left_out(const CLI::Option& option) {
  return option.get_lnames().empty() ? !option.get_default_str().empty() : option.get_items_expected_min() == 0;
}

bool may_be_repeated(const CLI::Option& option) {
  const CLI::MultiOptionPolicy policy = option.get_multi_option_policy();
  return option.get_items_expected_max() > 1 || policy == CLI::MultiOptionPolicy::Join ||
         policy == CLI::MultiOptionPolicy::TakeAll;
}

std::string OptionDescription::summary() const {
  std::size_t end = help.size();
  for (const std::string_view stop : {" (", ": ", "; ", " ["}) end = std::min(end, help.find(stop));
  return help.substr(0, end);
}

void prepare(CLI::App& app, Command& command) {
  app.name(fmt::format("ridgepoint {}", command.name()));
  app.set_help_flag("-h,--help", "show this text");
  app.allow_extras();
  // The application refuses an option given twice, with a clearer message than CLI11 has.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command.add_options(app);
}

std::vector<CommandDescription> describe(const std::vector<std::unique_ptr<Command>>& commands) {
  std::vector<CommandDescription> descriptions;
  for (const auto& command : commands) descriptions.push_back(describe(*command));
  return descriptions;
}

}  // namespace ridgepoint::cli
