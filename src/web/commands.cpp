// The commands that a web page has: those that plan, and those that say what there is.
#include "cli/descriptions/command.h"

namespace ridgepoint::cli {

std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_memory();
std::unique_ptr<Command> make_models();
std::unique_ptr<Command> make_plan();

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make : {make_plan, make_memory, make_models, make_completion}) commands.push_back(make());
  return commands;
}

}  // namespace ridgepoint::cli
