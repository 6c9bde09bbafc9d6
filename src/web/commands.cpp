// The commands that a web page has: those that plan, and those that say what there is.
#include "cli/descriptions/command.h"

namespace ridgepoint::cli {

std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_memory();
std::unique_ptr<Command> make_models();
std::unique_ptr<Command> make_plan();

std::span<const MakeCommand> command_makers() {
  static constexpr MakeCommand kMakers[] = {make_plan, make_memory, make_models, make_completion};
  return kMakers;
}

}  // namespace ridgepoint::cli
