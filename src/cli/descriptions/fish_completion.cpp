#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/descriptions/completion.h"
#include "cli/descriptions/quote.h"

namespace ridgepoint::cli {
namespace {

constexpr std::string_view kFishHead =
    R"(# Completion of ridgepoint for fish 3 or newer; `ridgepoint completion fish` prints it.

# Whether the command line has that command.
function __ridgepoint_runs
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end

# Whether it has none yet.
function __ridgepoint_needs_command
    test (count (commandline -opc)) -eq 1
end

complete -c ridgepoint -f
)";

// Within single quotes fish reads \\ and \'.
std::string quote(std::string_view text) { return "'" + escape(text, "'\\") + "'"; }

std::string names_of(const Choices& choices) {
  std::string text = choices.takes_list ? "__fish_append ," : "printf '%s\\n'";
  for (const std::string& name : choices.names) text += " " + quote(name);
  return quote("(" + text + ")");
}

std::string fish_value(const OptionDescription& option) {
  if (option.value.empty()) return "";
  if (option.takes_file()) return option.is_positional() ? " -F" : " -r -F";
  const std::string required = option.is_positional() || option.value_is_optional ? "" : " -x";
  return option.choices.names.empty() ? required : fmt::format("{} -a {}", required, names_of(option.choices));
}

std::string flags_of(const OptionDescription& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return text;
}

}  // namespace

std::string fish_completion(std::span<const CommandDescription> commands) {
  std::string text(kFishHead);
  std::vector<std::string_view> names;
  for (const CommandDescription& command : commands) {
    text += fmt::format("complete -c ridgepoint -n __ridgepoint_needs_command -a {} -d {}\n", command.name,
                        quote(command.summary));
    names.push_back(command.name);
  }
  text += "complete -c ridgepoint -n __ridgepoint_needs_command -a help -d 'explain a command'\n";
  text += "complete -c ridgepoint -n __ridgepoint_needs_command -s h -l help -d 'list the commands'\n";
  text += "complete -c ridgepoint -n __ridgepoint_needs_command -l version -d 'print the version'\n";
  text += fmt::format("complete -c ridgepoint -n '__ridgepoint_runs help' -a '{}'\n", fmt::join(names, " "));
  for (const CommandDescription& command : commands) {
    text += "\n";
    for (const OptionDescription& option : command.options) {
      text += fmt::format("complete -c ridgepoint -n '__ridgepoint_runs {}'{}{} -d {}\n", command.name,
                          flags_of(option), fish_value(option), quote(option.summary()));
    }
  }
  return text;
}

}  // namespace ridgepoint::cli
