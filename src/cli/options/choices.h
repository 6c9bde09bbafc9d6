// The names that an option takes, kept with the option: completion in a shell offers them. They check nothing; the
// command does, with an error that has the nearest name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace ridgepoint::cli
