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

// The options under one heading of a command's help that are no settings.
template <typename App>
class OptionGroup {
 public:
  OptionGroup(App& app, const char* name) : app_(app), name_(name) {}

  // `type` is the word for the value in the help: N, FILE, NAME.
  template <typename Value>
  CLI::Option* add(const char* flag, Value& value, const char* type, const std::string& help) const {
    return app_.add_option(flag, value, help)->type_name(type)->group(name_);
  }
  // With the names that it takes.
  template <typename Value>
  CLI::Option* add(const char* flag, Value& value, const char* type, const std::string& help,
                   const std::vector<std::string_view>& names, Takes takes) const {
    CLI::Option* option = add(flag, value, type, help);
    offer(*option, names, takes);
    return option;
  }
  CLI::Option* add_flag(const char* flag, bool& value, const std::string& help) const {
    return app_.add_flag(flag, value, help)->group(name_);
  }

 private:
  App& app_;
  const char* name_;
};

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
