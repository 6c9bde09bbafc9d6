#include "cli/terminal/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "core/build_info.h"
#include "views/table/wrap.h"

namespace ridgepoint::cli {
namespace {

using views::wrap;

// "--batch N" as the left column shows it.
std::string heading(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  names += "--" + option.get_lnames().front();
  const std::string type = option.get_items_expected_max() > 0 ? option.get_type_name() : "";
  return type.empty() ? names : names + " " + type;
}

std::vector<std::string> groups_of(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options()) {
    if (std::ranges::find(groups, option->get_group()) == groups.end()) groups.push_back(option->get_group());
  }
  // Help itself registers first and belongs last.
  std::rotate(groups.begin(), groups.begin() + 1, groups.end());
  return groups;
}

std::string indented(std::string_view lines) {
  std::string result;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    result += fmt::format("  {}\n", line);
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
  }
  return result;
}

}  // namespace

std::string program_help(std::span<const std::unique_ptr<Command>> commands) {
  std::string text = fmt::format(
      "Ridgepoint {} shows where the time and the memory of a Transformer training step go.\n\n"
      "Usage: ridgepoint COMMAND [OPTIONS]\n\nCommands:\n",
      version());
  for (const auto& command : commands) text += fmt::format("  {:<10} {}\n", command->name(), command->summary());
  text += "\n  -h, --help after a command explains it\n  --version   what this binary was built from\n\nExamples:\n";
  for (const auto& command : commands) {
    const std::string_view examples = command->examples();
    text += indented(examples.substr(0, examples.find('\n')));
  }
  return text;
}

std::string command_help(const Command& command, const CLI::App& app, std::size_t width) {
  std::string text = wrap(fmt::format("{}: {}", app.get_name(), command.summary()), width) +
                     fmt::format("\n\nUsage: {} [OPTIONS]\n", app.get_name());
  std::size_t column = 0;
  for (const CLI::Option* option : app.get_options()) column = std::max(column, heading(*option).size());
  for (const std::string& group : groups_of(app)) {
    text += fmt::format("\n{}:\n", group);
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() != group) continue;
      text +=
          fmt::format("  {:<{}}  {}\n", heading(*option), column, wrap(option->get_description(), width, column + 4));
    }
  }
  text += "\nExamples:\n" + indented(command.examples());
  if (!command.notes().empty()) text += "\n" + wrap(command.notes(), width) + "\n";
  return text;
}

}  // namespace ridgepoint::cli
