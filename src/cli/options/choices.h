// What is said of an option: its text, from its row of settings.def, and the names that it takes, kept with the option
// for completion in a shell. The names check nothing; the command does, with an error that has the nearest name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "record/columns.h"

namespace CLI {
class Option;
}

namespace ridgepoint::cli {

struct Choices {
  std::vector<std::string> names;  // empty: the option takes other values than names
  bool takes_list = false;         // several names, separated by commas
};

enum class Takes : std::uint8_t { one, list };
void offer(CLI::Option& option, const std::vector<std::string_view>& names, Takes takes);
Choices choices_of(CLI::Option& option);

struct OptionText {
  std::string flags;  // "--steps,--iterations"
  std::string group;
  std::string value;      // the word for its value: NAME, N, SIZE, X
  std::string help;       // with the names that it takes
  std::string initial;    // the value without the option; empty: none
  std::string alone;      // the value of the option without one; empty: it needs one
  std::string of_config;  // the same for a model of a config.json; empty: as for others
  std::string without;    // what the run has then
  std::vector<std::string_view> names = {};

  // The help, and in brackets the value without the option.
  std::string full_help() const;
};
OptionText text_of(const Setting& setting, const Option& option);

// Adds an option that is no setting.
template <typename App, typename Value>
CLI::Option* add_own_option(App& app, const char* flag, Value& value, const char* type, const char* help,
                            const char* group) {
  return app.add_option(flag, value, help)->type_name(type)->group(group);
}

// Adds the option of a setting whose command reads its value itself, in another group of the help if one is given.
template <typename App, typename Value>
CLI::Option* add_option_of(App& app, std::string_view name, Value& value, std::string_view group = {}) {
  const OptionText text = text_of(setting_of_option(name), setting_of_option(name).option);
  return app.add_option(text.flags, value, text.full_help())
      ->type_name(text.value)
      ->group(group.empty() ? text.group : std::string(group));
}
template <typename App>
void add_flag_of(App& app, std::string_view name, bool& value, std::string_view group = {}) {
  const OptionText text = text_of(setting_of_option(name), setting_of_option(name).option);
  app.add_flag(text.flags, value, text.full_help())->group(group.empty() ? text.group : std::string(group));
}

}  // namespace ridgepoint::cli
