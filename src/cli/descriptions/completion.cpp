#include "cli/descriptions/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text/json.h"
#include "core/text/words.h"

namespace ridgepoint::cli {
namespace {

constexpr std::string_view kBashHead =
    R"(# Completion of ridgepoint for bash 4 or newer; `ridgepoint completion bash` prints it.

)";

// What reads the two tables that are printed before it.
constexpr std::string_view kFunction = R"(
_ridgepoint() {
  # Bash splits words at = and : too, which stand inside values here.
  local words=() count=0 i word
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $word == [=:]* || ${COMP_WORDS[i - 1]} == *[=:] ]]; then
      words[count - 1]+=$word
    else
      words[count++]=$word
    fi
  done
  local current=${words[count - 1]} command=${words[1]} option=ARGUMENT value takes='' names=() start=''
  COMPREPLY=()
  if ((count == 2)); then
    names=("${_ridgepoint_commands[@]}" help --help --version)
    value=$current
  elif [[ $command == help ]]; then
    names=("${_ridgepoint_commands[@]}")
    value=$current
  elif [[ $current == --*=* ]]; then
    option=${current%%=*}
    start=$option=
    value=${current#*=}
    _ridgepoint_values "$command" "$option"
  else
    _ridgepoint_values "$command" "${words[count - 2]}"
    value=$current
    if [[ -z $takes || ($takes == optional* && $current == -*) ]]; then
      if [[ $current == -* ]]; then
        takes=one
        _ridgepoint_options "$command"
      else
        _ridgepoint_values "$command" ARGUMENT
      fi
    fi
  fi
  # Readline replaces what stands behind the last = or :.
  local fragment=${COMP_WORDS[COMP_CWORD]}
  [[ $fragment != [=:]* ]] || fragment=''
  local keep=$((${#current} - ${#fragment}))
  if [[ $takes == file ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$value")
    return
  fi
  value=${value//\\/}
  local quoted=''
  if [[ $value == [\'\"]* ]]; then
    quoted=yes
    value=${value:1}
  fi
  local done_names='' name reply
  [[ $takes != *list || $value != *,* ]] || done_names=${value%,*},
  for name in "${names[@]}"; do
    reply=$done_names$name
    [[ ${reply,,} == "${value,,}"* ]] || continue
    [[ -n $quoted ]] || reply=${reply// /\\ }
    reply=$start$reply
    COMPREPLY+=("${reply:keep}")
  done
}
complete -F _ridgepoint ridgepoint
)";

std::string takes(const OptionDescription& option) {
  const std::string kind = option.takes_file()                                          ? "file"
                           : option.choices.takes_list && !option.choices.names.empty() ? "list"
                                                                                        : "one";
  return option.value_is_optional && !option.is_positional() ? "optional_" + kind : kind;
}

std::string words(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + quote_word(name);
  return text;
}

std::string values_of(const CommandDescription& command) {
  std::string text;
  for (const OptionDescription& option : command.options) {
    if (option.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) patterns.push_back(fmt::format("'{} {}'", command.name, name));
    if (option.is_positional()) patterns.push_back(fmt::format("'{} ARGUMENT'", command.name));
    text += fmt::format("    {}) takes={}", fmt::join(patterns, " | "), takes(option));
    if (!option.choices.names.empty()) text += fmt::format(" names=({})", words(option.choices.names));
    text += " ;;\n";
  }
  return text;
}

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

Json described(const OptionDescription& option) {
  return {{"names", option.names},
          {"value", option.value},
          {"value_is_optional", option.value_is_optional},
          {"group", option.group},
          {"help", option.help},
          {"choices", option.choices.names},
          {"takes_list", option.choices.takes_list}};
}

}  // namespace

std::string bash_completion(std::span<const CommandDescription> commands) {
  std::string names;
  std::string options;
  std::string values;
  for (const CommandDescription& command : commands) {
    names += " " + command.name;
    std::vector<std::string> flags;
    for (const OptionDescription& option : command.options) {
      flags.insert(flags.end(), option.names.begin(), option.names.end());
    }
    options += fmt::format("    {}) names=({}) ;;\n", command.name, fmt::join(flags, " "));
    values += values_of(command);
  }
  return fmt::format(
      "{}_ridgepoint_commands=({})\n\n"
      "# COMMAND: sets `names` to its options.\n"
      "_ridgepoint_options() {{\n  case $1 in\n{}  esac\n}}\n\n"
      "# COMMAND OPTION: sets `takes` to the kind of the option's value, and `names` to those that it may be.\n"
      "_ridgepoint_values() {{\n  case \"$1 $2\" in\n{}  esac\n}}\n{}",
      kBashHead, names.substr(1), options, values, kFunction);
}

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

std::string json_description(std::span<const CommandDescription> commands) {
  std::string text = "{\"commands\":[";
  for (const CommandDescription& command : commands) {
    Json options = Json::array();
    for (const OptionDescription& option : command.options) options.push_back(described(option));
    text += (text.ends_with('[') ? "\n" : ",\n") +
            dump_json({{"name", command.name}, {"summary", command.summary}, {"options", std::move(options)}});
  }
  return text + "\n]}\n";
}

}  // namespace ridgepoint::cli
