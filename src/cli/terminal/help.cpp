#include "cli/terminal/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/descriptions/description.h"
#include "core/build_info.h"
#include "tables/table/wrap.h"

namespace ridgepoint::cli {
namespace {

using views::wrap;

// An argument that stands without a name in front: FILE.
bool is_positional(const CLI::Option& option) { return option.get_lnames().empty(); }

// The left column of an option: "--batch N".
std::string heading(const CLI::Option& option) {
  if (is_positional(option)) return option.get_name();
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  names += "--" + option.get_lnames().front();
  const std::string type = option.get_items_expected_max() > 0 ? option.get_type_name() : "";
  if (type.empty()) return names;
  return names + (can_be_left_out(option) ? fmt::format(" [{}]", type) : " " + type);
}

std::vector<std::string> groups_of(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options()) {
    const std::string group = option->get_group();
    if (!group.empty() && std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  // CLI11 registers --help first; the help lists it last.
  std::rotate(groups.begin(), groups.begin() + 1, groups.end());
  return groups;
}

// "NAME", "[NAME]" if it may be left out, "FILES..." if it may be several.
std::string usage_of(const CLI::Option& positional) {
  const std::string name = positional.get_name() + (positional.get_items_expected_max() > 1 ? "..." : "");
  return can_be_left_out(positional) ? "[" + name + "]" : name;
}

// Keeps the value of each option beside its name, and a quoted value in one piece: the spaces there do not break.
std::string with_values_kept(std::string_view line) {
  std::string text;
  bool is_name = false, is_quoted = false;
  for (std::size_t at = 0; at < line.size();) {
    const std::string_view word = line.substr(at, line.find(' ', at) - at);
    const bool begins_option = !is_quoted && word.starts_with("--");
    if (at > 0) text += is_quoted || (is_name && !begins_option) ? views::kNoBreak : " ";
    text += word;
    is_name = begins_option;
    if (std::ranges::count(word, '"') % 2 == 1) is_quoted = !is_quoted;
    at += word.size() + 1;
  }
  return text;
}

// Breaks a command line that is too long as a shell script does, with a backslash.
std::string example(std::string_view line, std::size_t width) {
  std::string text = wrap(with_values_kept(line), width - 2, 6);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.insert(at, " \\");
  return fmt::format("  {}\n", text);
}

}  // namespace

std::string program_help(std::span<const std::unique_ptr<Command>> commands, std::size_t width) {
  std::string text =
      wrap(fmt::format("Ridgepoint {} shows where the time and the memory of a Transformer training step go.",
                       version()),
           width) +
      "\n\nUsage: ridgepoint COMMAND [OPTIONS]\n\nCommands:\n";
  std::size_t column = 0;
  for (const auto& command : commands) column = std::max(column, command->name().size());
  for (const auto& command : commands) {
    text += fmt::format("  {:<{}}  {}\n", command->name(), column, wrap(command->summary(), width, column + 4));
  }
  text += "\n  COMMAND --help  explain a command\n  --version       the same as version\n\nExamples:\n";
  for (const auto& command : commands) text += example(views::lines_of(command->examples()).front(), width);
  return text;
}

std::string command_help(const Command& command, const CLI::App& app, std::size_t width) {
  std::string usage = app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (is_positional(*option)) usage += " " + usage_of(*option);
  }
  std::string text = wrap(fmt::format("{}: {}", app.get_name(), command.summary()), width) +
                     fmt::format("\n\nUsage: {} [OPTIONS]\n", usage);
  std::size_t column = 0;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) column = std::max(column, heading(*option).size());
  }
  for (const std::string& group : groups_of(app)) {
    text += fmt::format("\n{}:\n", group);
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() != group) continue;
      text +=
          fmt::format("  {:<{}}  {}\n", heading(*option), column, wrap(option->get_description(), width, column + 4));
    }
  }
  text += "\nExamples:\n";
  for (const std::string_view line : views::lines_of(command.examples())) text += example(line, width);
  if (!command.notes().empty()) text += "\n" + wrap(command.notes(), width) + "\n";
  return text;
}

}  // namespace ridgepoint::cli
