#include "core/text/json.h"
#include "cli/descriptions/completion.h"

namespace ridgepoint::cli {
namespace {

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
