#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/descriptions/completion.h"
#include "cli/descriptions/quote.h"

namespace ridgepoint::cli {
namespace {

constexpr std::string_view kZshHead = R"(#compdef ridgepoint
# Completion of ridgepoint for zsh; `ridgepoint completion zsh` prints it.

)";

// The end of a specification for _arguments: the value's word, and how it is completed.
std::string zsh_value(const OptionDescription& option) {
  if (option.value.empty()) return "";
  std::string text = (option.value_is_optional ? "::" : ":") + option.value + ":";
  if (option.takes_file()) return text + (option.value == "FOLDER" ? "_files -/" : "_files");
  if (option.choices.names.empty()) return text + " ";
  text += option.choices.takes_list ? "_sequence compadd -" : "compadd -";
  for (const std::string& name : option.choices.names) text += " " + escape(name, " :\\");
  return text;
}

// "(-h --help)-h[show this text]"
std::vector<std::string> specifications(const OptionDescription& option) {
  if (option.is_positional()) return {quote_word("1" + zsh_value(option))};
  std::vector<std::string> lines;
  const std::string others = option.names.size() > 1 ? fmt::format("({})", fmt::join(option.names, " ")) : "";
  for (const std::string& name : option.names) {
    const std::string equals = !option.value.empty() && name.starts_with("--") ? "=" : "";
    lines.push_back(quote_word(
        fmt::format("{}{}{}[{}]{}", others, name, equals, escape(option.summary(), "[]:\\"), zsh_value(option))));
  }
  return lines;
}

}  // namespace

std::string zsh_completion(std::span<const CommandDescription> commands) {
  std::string names;
  std::string cases;
  for (const CommandDescription& command : commands) {
    names += "    " + quote_word(command.name + ":" + command.summary) + "\n";
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const OptionDescription& option : command.options) {
      for (const std::string& line : specifications(option)) cases += " \\\n        " + line;
    }
    cases += "\n      ;;\n";
  }
  return fmt::format(
      "{}_ridgepoint() {{\n"
      "  local -a commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    compadd -- help --help --version\n"
      "    return\n"
      "  fi\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $words[1] in\n"
      "    help) _describe command commands ;;\n{}"
      "  esac\n}}\n\n"
      "# The first call of an autoloaded function, or a file that a person sources.\n"
      "if [[ $funcstack[1] == _ridgepoint ]]; then _ridgepoint \"$@\"; else compdef _ridgepoint ridgepoint; fi\n",
      kZshHead, names, cases);
}

}  // namespace ridgepoint::cli
