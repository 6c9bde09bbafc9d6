#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/descriptions/completion.h"
#include "cli/descriptions/quote.h"

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

}  // namespace ridgepoint::cli
